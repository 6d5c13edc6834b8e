"""The page about the bus in a shell: its commands are run as they are written, at a server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bussrv.cli.admin_client import AdminClient
from bussrv.client.spp import SppClient
from tests.docs.commands import says
from tests.docs.pages import ROOT, blocks
from tests.forked import ForkedServer

pytestmark = pytest.mark.processes

PAGE = "docs/how-to/shell.md"
BESIDE = ("bussrv sub 'hall/*'", "bussrv reply upper -- tr a-z A-Z")
"""These go on until Ctrl-C."""

Beside = list[tuple["subprocess.Popen[str]", str]]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkedServer]:
    program = f"#!{sys.executable}\nimport sys\nfrom bussrv.cli.main import main\nsys.exit(main())\n"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/bussrv").write_text(program)
    (tmp_path / "bin/bussrv").chmod(0o755)
    (tmp_path / "bussrv").mkdir()
    for name, value in (
        ("PATH", f"{tmp_path}/bin:{os.environ['PATH']}"),
        ("PYTHONPATH", str(ROOT)),
        ("XDG_CONFIG_HOME", str(tmp_path)),
    ):
        monkeypatch.setenv(name, value)
    with ForkedServer(tmp_path / "journal") as running:
        lines = [f'{name} = "{host}:{port}"' for name, (host, port) in running.addresses.items()]
        (tmp_path / "bussrv/profiles.toml").write_text("\n".join(["[default]", *lines]))
        yield running


def commands() -> list[tuple[str, str]]:
    """Every command of the page that needs no other server, and what it prints."""
    text = "".join(blocks(PAGE, "console"))
    found = re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", text, re.MULTILINE)
    return [(command, said) for command, said in found if "--profile" not in command]


def await_client(server: ForkedServer, command: str) -> None:
    """Wait until a command that goes on has joined, or provides its service."""
    if " reply " in command:
        with SppClient(port=server.port("spp")) as watcher:
            watcher.wait_for(lambda event: event.service == "upper")
        return
    records = AdminClient(port=server.port("admin")).stream("/events", after=0)
    # A name with * needs two sessions over objects: the second one receives the publications.
    added = (each for each in records if each.event == "subscription.added")
    for _ in range(2):
        next(added)
    records.close()


def test_the_commands_of_the_page(server: ForkedServer, tmp_path: Path) -> None:
    beside: Beside = []
    try:
        for command, wanted in commands():
            if command in BESIDE:
                # Without the shell: it would not pass the signal on.
                words = [sys.executable, *("-c", "from bussrv.cli.main import main; raise SystemExit(main())")]
                words += [each.strip("'") for each in command.split()[1:]]
                beside.append((subprocess.Popen(words, stdout=subprocess.PIPE, text=True), wanted))
                await_client(server, command)
            else:
                done = subprocess.run(
                    ["sh", "-c", command],
                    cwd=tmp_path,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=30,
                    check=False,
                )
                assert says(done.stdout.strip(), wanted.strip()), f"{command} said:\n{done.stdout}"
    finally:
        for process, _ in beside:
            process.send_signal(signal.SIGINT)
    for process, wanted in beside:
        said, _ = process.communicate(timeout=30)
        assert process.returncode == 130
        assert says(said, wanted), said
    assert len(beside) == len(BESIDE)
