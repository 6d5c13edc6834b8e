"""The command, its page, and the plugin for pytest."""

import json
from pathlib import Path
from typing import ClassVar

import pytest

from bussrv.cli.main import main
from bussrv.testing import pytest_plugin
from bussrv.testing.conformance.adapter import Adapter, Client
from bussrv.testing.conformance.judging import PROMISES, judge_one
from bussrv.testing.conformance.page import page
from tests.testing.conformance import lines
from tests.testing.conformance.broken import FAULTS, module_with

DENIED = ["conformance", "spp", "--only", "denied-subscription"]


def test_kept_promises_are_lines_and_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(DENIED) == 0
    kept, *others, total = capsys.readouterr().out.splitlines()
    assert others == []
    assert kept == "kept    a-denied-subscription-gives-nothing"
    assert total == "spp: 1 promises kept, 0 broken, 0 not applicable"


def test_json_has_a_line_for_each_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "inbus", "--json", "--only", "secret"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {each["outcome"] for each in found} == {"not applicable"}
    assert all("users of Inbus are networks" in each["sentence"] for each in found)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["smoke"], "declares it as an entry point smoke of the group bussrv.conformance"),
        (["json:loads"], "json:loads is no adapter: TypeError"),
        (["collections:Counter"], "is not derived from"),
        (["spp", "--only", "nonsense"], "no promise has 'nonsense' in its name"),
        ([*DENIED[1:], "--html", "/nowhere/page.html"], "cannot write /nowhere/page.html"),
    ],
)
def test_what_cannot_be_judged_is_a_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conformance", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_broken_promise_is_status_1_and_first_on_the_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (fault,) = (each for each in FAULTS if each.name == "publications come twice")
    find = lines.finding(module_with(fault))
    monkeypatch.setattr("bussrv.testing.conformance.judging.installed_format", find)
    monkeypatch.setattr("bussrv.testing.conformance.judging.judge_one.__defaults__", (find, 0))
    monkeypatch.setattr(
        "bussrv.testing.conformance.formats.known.OWN", {"lines": "tests.testing.conformance.lines:Made"}
    )
    file = tmp_path / "lines.html"
    assert main(["conformance", "lines", "--only", "publications", "--html", str(file)]) == 1
    said = capsys.readouterr().out
    assert "broken  publications-come-from-every-other-format: " in said
    assert "        client 2, lines: subscribe; last sent b'SUB lamp\\n', received b'lamp Omega" in said
    text = file.read_text("utf-8")
    rows = text[text.index("</thead>") :]
    assert rows.index('class="broken"') < rows.index('class="kept"')
    assert "came 2 times instead of once" in text
    assert "last sent b&#x27;SUB lamp" in text
    assert "<code>objects: join, subscribe</code>" in text[rows.index('class="kept"') :]
    assert "A line ends at the first line break." in text


def test_what_formats_say_is_escaped_on_the_page() -> None:
    class Odd(Adapter):
        name = "<b>"
        client = Client
        absent: ClassVar[dict[str, str]] = {"login": "<script>"}

    text = page(Odd(), [judge_one(each, Odd()) for each in PROMISES if "login" in each.needs], 7)
    assert "<script>" not in text
    assert "<b>: 0 broken" not in text
    assert "seed 7" in text


def test_an_adapter_says_why_it_lacks_something() -> None:
    for absent, said in (({"flying": "No wings."}, "no capability flying"), ({"login": " "}, "say why")):
        made = type("Made", (Adapter,), {"absent": absent})
        with pytest.raises(ValueError, match=said):
            made()


def test_a_broken_promise_fails_a_test_of_pytest() -> None:
    (fault,) = (each for each in FAULTS if each.name == "publications come twice")
    (promise,) = (each for each in PROMISES if each.name == fault.promise)
    check = pytest_plugin.trial(promise, lines.adapter(), installed=lines.finding(module_with(fault)))
    with pytest.raises(pytest.fail.Exception, match=r"Broken: .* came 2 times"):
        check()
    pytest_plugin.trial(promise, lines.adapter(), installed=lines.finding(lines.fresh()))()
