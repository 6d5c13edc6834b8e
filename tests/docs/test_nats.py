"""The pages on uplinks to NATS: their commands run, and their tables are those of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bussrv.cli.commands.operate.uplink import uplink
from bussrv.testing.server import RunningServer
from bussrv.testing.uplink import RunningUplink
from bussrv.uplink.crossing import frames, peers
from bussrv.uplink.figures import PREFIX
from bussrv.uplink.nats.session import COUNTERS
from bussrv.uplink.nats.settings import PASSWORD
from examples.demo.cluster import main
from tests.docs.commands import says
from tests.docs.pages import blocks, page, rows
from tests.forked import ForkedServer
from tests.uplink.nats_cluster import NatsCluster

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

PAGE = "docs/how-to/nats.md"
PROTOCOL = "docs/reference/protocols/nats.md"


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with NatsCluster(tmp_path_factory.mktemp("nats"), nodes=1) as server:
        yield server


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory whose path is short enough for sockets, and that no other process has."""
    with TemporaryDirectory(dir="/tmp", prefix="bussrv-") as directory:
        yield Path(directory)


def test_the_commands_of_the_page(nats: NatsCluster, place: Path, tmp_path: Path) -> None:
    """Two servers, as on two machines; their sockets are elsewhere."""
    text = "".join(blocks(PAGE, "console"))
    server, command, *shown = re.sub(r"^hall\$ ", "", text, flags=re.MULTILINE).splitlines()
    assert server.startswith("twistd -n bussrv ")
    assert command.startswith("bussrv uplink ")
    (url,) = nats.urls
    command = command.replace("nats://nats1.example,nats2.example,nats3.example", url)
    running: list[RunningServer] = []
    uplinks: list[RunningUplink] = []
    try:
        for name in ("hall", "cellar"):
            socket = f"unix:{place / name}"
            options = server.replace("unix:/run/bussrv/servers", socket).replace(
                "--server-id hall", f"--server-id {name}"
            )
            running.append(ForkedServer(tmp_path / name, options.split()[3:]))
            uplinks.append(RunningUplink(*command.replace("unix:/run/bussrv/servers", socket).split()[2:]))
        uplinks[0].wait_for("cellar has joined")
        assert says("\n".join(uplinks[0].lines), "\n".join(shown))
    finally:
        for each in (*uplinks, *running):
            each.process.kill()
            each.wait()


def test_the_tables_are_those_of_the_code() -> None:
    told = {row[0].strip("`"): row[1] for row in rows(PAGE) if row[0].startswith(f"`{PREFIX}")}
    known = {f"{PREFIX}_{name.replace('-', '_')}_total": text for name, text in COUNTERS.items()}
    assert {name: text for name, text in told.items() if name in known} == known
    assert f"`{PASSWORD}`" in page(PAGE)
    options = {name for each in uplink.params for name in each.opts}
    assert set(re.findall(r"`(--(?:nats|keep|bus|token|lapse|state|net)[a-z-]*)", page(PAGE))) <= options


def test_the_grammar_is_that_of_the_code() -> None:
    for module in (frames, peers):
        (grammar,) = re.findall(r"::\n\n((?:    .+\n)+)", module.__doc__ or "")
        lines = [line.strip() for line in grammar.splitlines()]
        shown = [line.strip() for block in blocks(PROTOCOL, "text") for line in block.splitlines()]
        assert [line for line in lines if line not in shown] == []


@pytest.mark.long
def test_make_demo_cluster(capfd: pytest.CaptureFixture[str]) -> None:
    (shown,) = blocks("docs/tutorial/cluster.md", "console")
    assert main() == 0
    assert says(capfd.readouterr().out, shown.partition("\n")[2])
