from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv import toml_lines

TEXT = (
    '# a = 0\n\na = 1 # one\nb = [\n  "x", # b = 2\n  ["y"],\n]\n"c d" = """\ne = 1\n[f]\n"""\n'
    "g.h = 1\ng.i = 2\n  j = '''\nk = 1'''\r\n[l]\nm = 1\na = 2\n[[n]]\no = 1\n[[ n ]] # [q]\n[p.q]\n"
)


def test_the_lines_of_keys() -> None:
    lines = toml_lines.read(TEXT).lines
    top = {"a": 3, "b": 4, "c d": 8, "g": 12, "j": 14, "l": 16, "n": 19, "p": 22}
    assert {path[0]: line for path, line in lines.items() if len(path) == 1} == top
    inner = {path: line for path, line in lines.items() if len(path) > 1}
    assert inner.pop(("b", 0)) == 5
    assert inner == {
        ("g", "h"): 12,
        ("g", "i"): 13,
        ("l", "m"): 17,
        ("l", "a"): 18,
        ("n", 0): 19,
        ("n", 0, "o"): 20,
        ("n", 1): 21,
        ("p", "q"): 22,
    }


STRINGS = st.sampled_from(
    ['"a"', "'b'", '"]"', "'[' ", '"\\"="', '"""\n[x]\ny = 1\n"""', "'''\n#'''", '""', '"""a""b"""""', "''''c'''''"]
)
SPACES = st.sampled_from(["", " ", "\n", ' # ] "\n', "\n\n", "\r\n"])


@given(st.lists(st.lists(st.tuples(SPACES, STRINGS, SPACES), max_size=4), max_size=6))
def test_every_string_of_every_array_is_found(arrays: list[list[tuple[str, str, str]]]) -> None:
    text = ""
    expected = {}
    for number, array in enumerate(arrays):
        text += f"[[t]]\nk.v{number} = ["
        expected["t", number, "k", f"v{number}"] = text.count("\n") + 1
        for place, (before, string, after) in enumerate(array):
            text += before
            expected["t", number, "k", f"v{number}", place] = text.count("\n") + 1
            text += f"{string}{after},"
        text += "] # [[t]]\n"
    lines = toml_lines.read(text).lines
    assert {path: line for path, line in lines.items() if len(path) > 3} == expected


def test_arrays_within_arrays_of_tables() -> None:
    lines = toml_lines.read("[[a]]\n[[a.b]]\nc = 1\n[[a.b]]\nc = 2\n[[a]]\n[a.d]\n").lines
    assert lines["a", 0, "b", 1, "c"] == 5
    assert lines["a", 1, "d"] == 7


def test_many_lines_take_a_time_that_grows_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = 0
    loads = toml_lines.tomllib.loads

    def counted(text: str) -> object:
        nonlocal parsed
        parsed += len(text)
        return loads(text)

    monkeypatch.setattr(toml_lines.tomllib, "loads", counted)
    text = "users = [\n" + '"cn=ann",\n' * 5000 + "]\n"
    assert len(toml_lines.read(text).lines) == 5001
    assert parsed < 1.1 * len(text)
