"""``bussrv sub`` and ``reply`` when their connection ends: with ``--reconnect`` they continue, and say so."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bussrv.wire.spp import Offer, Removed
from tests.cli.conftest import Place, run
from tests.cli.talking import PATIENCE, await_record, await_service, watching
from tests.docs.pages import blocks
from tests.end_to_end.cables import Bench, Cable

pytestmark = pytest.mark.processes

PROGRAM = (sys.executable, "-c", "from bussrv.cli.main import main; raise SystemExit(main())")
LOST = "the connection broke: Connection reset by peer"


@pytest.fixture
def cable(place: Place) -> Iterator[Cable]:
    """A plugged cable to the port of Object System."""
    with Bench() as bench:
        found = Cable(bench)
        found.plug(place.server.addresses["objects"])
        yield found
        found.close()


@contextmanager
def started(cable: Cable, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command that uses the cable."""
    with subprocess.Popen(
        [*PROGRAM, words[0], "--server", f"127.0.0.1:{cable.port}", "--timeout", str(PATIENCE), *words[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("words", [("sub", "left"), ("reply", "left", "--", "cat")])
def test_without_it_the_command_ends(place: Place, cable: Cable, words: tuple[str, ...]) -> None:
    with started(cable, *words) as process:
        if words[0] == "sub":
            await_record(place, "subscription.added", "left")
        else:
            await_service(place, "left")
        cable.unplug()
        said, complained = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said, complained) == (3, "", f"bussrv {words[0]}: {LOST}\n")


def test_sub_tells_where_publications_may_be_missing(place: Place, cable: Cable) -> None:
    with started(cable, "sub", "kept", "--reconnect", "--json", "--count", "2") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        await_record(place, "subscription.added", "kept")
        assert run("pub", "kept", "1") == (0, "", "")
        assert json.loads(process.stdout.readline())["payload"] == "1"
        cable.unplug()
        assert [process.stdout.readline()] == blocks("docs/how-to/shell.md", "json")
        told = {process.stderr.readline() for _ in range(2)}
        assert told == {
            "bussrv sub: publications may be missing here: connection-lost\n",
            f"bussrv sub: {LOST}; trying again until the server is back\n",
        }
        assert run("pub", "kept", "meanwhile")[0] == 0
        cable.plug(place.server.addresses["objects"])
        assert process.stderr.readline() == f"bussrv sub: connected to 127.0.0.1:{cable.port}\n"
        assert run("pub", "kept", "2") == (0, "", "")
        said, complained = process.communicate(timeout=PATIENCE)
    assert (process.returncode, json.loads(said)["payload"], complained) == (0, "2", "")


def test_reply_provides_its_service_again(place: Place, cable: Cable) -> None:
    with (
        watching(place) as watcher,
        started(cable, "reply", "again", "--reconnect", "--quiet", "--count", "2", "--", "cat") as process,
    ):
        for number, event in enumerate((Offer, Removed, Offer)):
            if event is Removed:
                cable.unplug()
            elif number:
                cable.plug(place.server.addresses["objects"])
            watcher.wait_for(lambda each, event=event: isinstance(each, event) and each.service == "again")
            if event is Offer:
                assert run("request", "again", str(number)) == (0, str(number), "")
        said, complained = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said, complained.count("\n")) == (0, "", 2)


def test_it_waits_for_a_server_that_is_not_there_yet(place: Place, cable: Cable) -> None:
    cable.unplug()
    # Nobody takes the connection: the time-out of each attempt is over, and there is another one.
    with started(cable, "sub", "early", "--reconnect", "--count", "1", "--timeout", "0.2") as process:
        assert process.stderr is not None
        assert "trying again until the server is back" in process.stderr.readline()
        cable.plug(place.server.addresses["objects"])
        assert "connected to" in process.stderr.readline()
        await_record(place, "subscription.added", "early")
        assert run("pub", "early", "x") == (0, "", "")
        said, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (0, "early  x\n")
