"""Every example in the help of a command is run as it is written, at a real server."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from bussrv.cli.admin_client import AdminClient
from bussrv.cli.command import Command
from bussrv.cli.main import BUSSRV, main
from tests.cli.conftest import Place
from tests.cli.test_main import commands
from tests.cli.world import Clients
from tests.docs.commands import prepare

pytestmark = [pytest.mark.processes, pytest.mark.timeout(60)]

ROOT = Path(__file__).parents[2]
BROKEN_PIPE = 141

ENDLESS = (
    *("bussrv sub tv", "bussrv events", "bussrv top", "bussrv tap", "bussrv tap --format inbus --json"),
    *("bussrv reply clock -- date -u", "bussrv reply upper --concurrency 8 -- tr a-z A-Z"),
)
"""These go on until nobody reads their output any more."""

ELSEWHERE = ("audit", "uplink", "witness")
"""Their own tests run them."""

NEED = {
    "cert renew": "bussrv init hall",
    "check-proof": "bussrv journal prove bussrv-journal 28 -o proof.zip",
    "journal fetch": "bussrv journal ship bussrv-journal file:archive/hall",
    "--delete": 'printf "a secret of ann\\n" | bussrv passwd users ann --stdin && bussrv token tokens ann',
}
"""What has to be done before an example with such a word."""

POLICY = '[[rule]]\nusers = ["ann"]\npublish = ["tv"]\n'


def examples() -> list[object]:
    """Those that stop the server come last."""
    found = [each for _, command in commands(BUSSRV) if isinstance(command, Command) for each in command.examples]
    found = [each for each in found if each.split()[1] not in ELSEWHERE]
    found.sort(key=lambda each: "drain" in each)
    return [pytest.param(each, marks=pytest.mark.long) if "bussrv bench" in each else each for each in found]


@pytest.fixture(scope="module")
def clients(place: Place) -> Iterator[Clients]:
    found = Clients(place.server)
    yield found
    found.close()


@pytest.fixture
def directory(place: Place, clients: Clients, short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of somebody who runs examples."""
    prepare(short_path)
    token = short_path / "bussrv-journal.admin-token"
    token.write_bytes((place.home / "journal.admin-token").read_bytes())
    token.chmod(0o600)
    port = place.server.port("objects")
    (short_path / "bussrv.toml").write_text(
        f'objects = "tcp:{port}:interface=127.0.0.1"\nbusiness = "off"\nspp = "off"\njournal = "journal"\n'
    )
    (short_path / "policy.toml").write_text(POLICY)
    (short_path / "notes.txt").write_text("one\ntwo\n")
    (short_path / "bin").mkdir()
    program = f"#!{sys.executable}\nimport sys\nfrom bussrv.cli.main import main\nsys.exit(main())\n"
    (short_path / "bin/bussrv").write_text(program)
    (short_path / "bin/bussrv").chmod(0o755)
    monkeypatch.chdir(short_path)
    monkeypatch.setenv("PATH", f"{short_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return short_path


@pytest.mark.parametrize("example", examples())
def test_an_example(example: str, directory: Path, place: Place) -> None:
    for word, before in NEED.items():
        if word in example:
            if "|" in before:
                subprocess.run(["sh", "-c", before], check=True, timeout=30, stdout=subprocess.DEVNULL)
            else:
                assert main(shlex.split(before)[1:]) == 0
    wanted = BROKEN_PIPE if example in ENDLESS else 0
    if "<" in example or "|" in example:
        done = subprocess.run(["sh", "-c", example], capture_output=True, text=True, timeout=30, check=False)
        assert (done.returncode, done.stderr) == (wanted, "")
        return
    status, said, complained = in_process(shlex.split(with_session(example, place))[1:], ends=example not in ENDLESS)
    assert (status, complained) == (wanted, ""), said


def with_session(example: str, place: Place) -> str:
    """The example, about a session that there is."""
    if "5f1c2ab94e07.3" not in example:
        return example
    admin = AdminClient(port=place.server.port("admin"))
    (session,) = [each["session"] for each in admin.items("/sessions", protocol="inbus")][:1]
    return example.replace("5f1c2ab94e07.3", session)


def in_process(words: list[str], *, ends: bool) -> tuple[int, str, str]:
    """How a command ends whose output is read to its end, or up to the first line."""
    reading, writing = os.pipe()
    lines: list[str] = []

    def read() -> None:
        with os.fdopen(reading) as stream:
            for line in stream:
                lines.append(line)
                if not ends:
                    return

    reader = threading.Thread(target=read)
    reader.start()
    complained = io.StringIO()
    with os.fdopen(writing, "w", encoding="utf-8") as stream, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"another secret of ann\n")))
        # It is the output of the process, whose end is no fault.
        patch.setattr(sys, "__stdout__", stream)
        with redirect_stdout(stream), redirect_stderr(complained):
            status = main(words)
    reader.join(10)
    return status, "".join(lines), complained.getvalue()
