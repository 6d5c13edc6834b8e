"""The command as a whole: what it imports, what it says there is, how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from bussrv.cli.command import Command
from bussrv.cli.main import BUSSRV, SECTIONS, main
from tests import size
from tests.tables import check_each

ROOT = Path(__file__).parents[2]

# What `bussrv --help` and the help of every command import, besides the standard library. Each of these costs every
# start of the command some milliseconds.
LIGHT = {
    "bussrv",
    "bussrv.version",
    "bussrv.errors",
    "bussrv.terminal",
    "bussrv.audit",
    "bussrv.audit.arguments",
    "bussrv.patterns",
    "bussrv.registry",
    "bussrv.registry.state",
    "bussrv.registry.state.naming",
    "click",
}
HEAVIER = {
    "journal synth": {"bussrv.synth.faults", "bussrv.synth.scripts"},
}


def commands(group: click.Group, *path: str) -> list[tuple[tuple[str, ...], click.Command]]:
    """Every command, and the words that name it."""
    found = []
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        found.append(((*path, name), command))
        if isinstance(command, click.Group):
            found += commands(command, *path, name)
    return found


@pytest.mark.processes
def test_help_imports_little() -> None:
    """One process asks for everything, so that the list of each command is of what nobody before it has imported."""
    program = """
import contextlib, io, json, sys
from bussrv.cli.main import main
sets = {}
for words in json.loads(sys.argv[1]):
    before = set(sys.modules)
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([*words, "--help"]) == 0
    sets[" ".join(words)] = sorted(set(sys.modules) - (before if words else set()))
print(json.dumps(sets))
"""
    asked = [[], *(list(path) for path, _ in commands(BUSSRV))]
    command = [sys.executable, "-c", program, json.dumps(asked)]
    answer = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for words, modules in json.loads(answer).items():
        foreign = {name for name in modules if name.split(".")[0] not in sys.stdlib_module_names}
        foreign -= {"__main__", *(name for name in foreign if name.startswith(("_", "sphinxcontrib")))}
        ours = {name for name in foreign if name.startswith("bussrv.") and not name.startswith("bussrv.cli")}
        others = {name.split(".")[0] for name in foreign} - {"bussrv"}
        if words in HEAVIER:
            assert ours >= HEAVIER[words], words
        else:
            assert ours <= LIGHT, words
            assert others <= LIGHT, words


def test_alone_it_says_what_there_is_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    said = capsys.readouterr().out
    places = [said.index(f"\n{heading}:\n") for heading in SECTIONS]
    assert places == sorted(places)
    for rows in SECTIONS.values():
        for name, entry in rows.items():
            assert f"  {name} " in said
            assert entry.summary in said
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize(("path", "command"), [(path, each) for path, each in commands(BUSSRV)])
def test_every_command_has_examples_and_exit_statuses(path: tuple[str, ...], command: click.Command) -> None:
    if isinstance(command, click.Group):
        return
    assert isinstance(command, Command)
    assert command.examples
    assert 0 in command.statuses
    assert all(" ".join(("bussrv", *path)) in example for example in command.examples)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sup", "tv"), "bussrv: there is no command 'sup'"),
        (("sub",), "bussrv sub: missing argument 'SERVICE...' (see bussrv sub --help)"),
        (("sub", "tv", "--nothing"), "bussrv sub: no such option"),
        (("sub", "tv", "--format", "wap"), "is not one of 'objects', 'business', 'inbus', 'spp'"),
        (("sub", "tv", "--raw", "--json"), "bussrv sub: --json is not allowed with --raw (see bussrv sub --help)"),
        (("sub", "t\x1b[31mv", "--bad\x1b]0;x"), r"--bad\x1b]0;x"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err
    assert err.rstrip("\n").isprintable()


@pytest.mark.processes
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete(shell: str) -> None:
    program = [sys.executable, "-c", "import sys; from bussrv.cli.main import main; sys.exit(main())"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    asking = [*program, "completion", shell]
    script = subprocess.run(asking, env=environment, capture_output=True, text=True, check=True)
    assert f"{shell}_complete" in script.stdout
    variables = {"COMP_WORDS": "bussrv jour", "COMP_CWORD": "jour" if shell == "fish" else "1"}
    found = subprocess.run(
        program,
        env={**environment, **variables, "_BUSSRV_COMPLETE": f"{shell}_complete"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "journal" in found.stdout


def ended(arguments: str, place: Path) -> tuple[int, str]:
    """The status of a command line of a shell in a directory, and what it says on standard error."""
    command = f"exec {Path(sys.executable).with_name('bussrv')} {arguments}"
    done = subprocess.run(["sh", "-c", command], cwd=place, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def contents(place: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in place.rglob("*")}


FULL = "bussrv: the output cannot be written: No space left on device\n"
CLOSED = "bussrv: standard output is closed\n"
PRINTING = {
    "the version": "--version",
    "a help": "journal --help",
    "completion": "completion bash",
    "a new token": "token new-tokens ann",
    "another token": "token tokens ann",
    "a token as JSON": "token --json tokens ann",
    "a new server": "init new",
    "a new server in a directory that is there": "init there",
    "a new server as JSON": "init --json there",
    "a check": "check server.toml",
    "records": "journal tail journal",
    "the registry": "journal state journal",
    "proof": "journal verify journal",
    "proof as JSON": "journal verify --json journal",
    "a timeline": "timeline light/hall journal",
    "an audit": "audit --engine embedded --out {out} journal",
}
"""Command lines that print, and leave in their directory what was there."""


@pytest.mark.processes
def test_unwritable_output_is_one_sentence_and_changes_nothing(tmp_path: Path) -> None:
    place = tmp_path / "place"
    (place / "there").mkdir(parents=True)
    (place / "there" / "mine").touch()
    (place / "server.toml").write_text("")
    assert main(["journal", "synth", str(place / "journal"), "--events", "200"]) == 0
    assert main(["token", str(place / "tokens"), "ben"]) == 0
    before = contents(place)

    def check(row: tuple[str, str, str]) -> None:
        arguments, redirected, said = row
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        assert ended(f"{arguments.format(out=out)} {redirected}", place) == (2, said)
        assert contents(place) == before

    names = size.sample([*PRINTING])
    # That there is no output is seen before any command begins.
    rows = [
        (f"{name} {redirected}", (PRINTING[name], redirected, said))
        for redirected, said, some in ((">&-", CLOSED, names if size.FULL else names[-1:]), (">/dev/full", FULL, names))
        for name in some
    ]
    check_each([*rows, ("both", (PRINTING["a new token"], ">/dev/full 2>&1", ""))], check)


RELATIVE = {
    "init": "bussrv init new",
    "token": "bussrv token tokens ann",
    "passwd": "bussrv passwd tokens ann --stdin",
    "check": "bussrv check server.toml",
    "policy": "bussrv policy test --policy policy.toml --user ann publish tv",
    "journal": "bussrv journal verify here",
    "audit": "bussrv audit --engine embedded here",
    "audit of a URL, with a directory for its tables": "bussrv audit --out here s3://bucket/hall",
    "timeline": "bussrv timeline tv here",
    "pub": "bussrv pub tv --file here",
    "uplink": "bussrv uplink kafka://127.0.0.1:1 --events --journal here",
    "a server": "twistd -n bussrv",
    "TLS of a server": "twistd -n --pidfile= bussrv --journal off --objects ssl:0:privateKey=here:certKey=here",
}


@pytest.mark.processes
def test_a_working_directory_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    def check(command_line: str) -> None:
        place = tmp_path / "place"
        place.mkdir()
        command = f"rmdir {place}; exec {Path(sys.executable).parent}/{command_line}"
        done = subprocess.run(["sh", "-c", command], cwd=place, capture_output=True, text=True, check=False)
        status = 1 if command_line.startswith("twistd") else 2
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (status, "", 1)
        assert "starts from the working directory, which is gone" in done.stderr

    check_each(size.sample([*RELATIVE.items()], 3), check)
