"""A server, and the command as a person runs it, in the process of the test."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from bussrv.cli.main import main
from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.wire import spp
from tests.forked import ForkedServer

Ended = tuple[int, str, str]

HOSTILE = "eve\x1b]0;x\x07\u202e"


class Place:
    """A server whose profile is the default one, and the shell of somebody who uses it."""

    def __init__(self, home: Path, server: ForkedServer) -> None:
        self.home = home
        self.server = server
        self.profiles = home / "bussrv/profiles.toml"

    def write_profile(self) -> None:
        self.profiles.parent.mkdir(exist_ok=True)
        lines = [f'{name} = "{host}:{port}"' for name, (host, port) in self.server.addresses.items() if name != "links"]
        self.profiles.write_text("\n".join(["[default]", *lines, ""]))

    def run(self, *words: object) -> Ended:
        """How a command ends, and what it says."""
        return run(*words)


def run(*words: object) -> Ended:
    """How a command ends, and what it says, in this process."""
    said, complained = io.TextIOWrapper(io.BytesIO(), "utf-8", newline=""), io.StringIO()
    with redirect_stdout(said), redirect_stderr(complained):
        status = main([*map(str, words)])
    said.seek(0)
    return status, said.read(), complained.getvalue()


class Beside:
    """A command in a thread, beside the test. Its output is lost."""

    def __init__(self, words: Sequence[object]) -> None:
        self.status: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, args=([*map(str, words)],), daemon=True)
        self._thread.start()

    def _run(self, words: list[str]) -> None:
        try:
            self.status.set_result(main(words))
        except BaseException as error:
            self.status.set_exception(error)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home = tmp_path_factory.mktemp("home")
    variables = {name: value for name, value in os.environ.items() if not name.startswith("BUSSRV_")}
    with pytest.MonkeyPatch.context() as patch, ForkedServer(home / "journal") as server:
        for name in os.environ.keys() - variables.keys():
            patch.delenv(name)
        patch.setenv("XDG_CONFIG_HOME", str(home))
        found = Place(home, server)
        found.write_profile()
        yield found


@pytest.fixture(scope="module")
def lamp(place: Place) -> Iterator[ObjectsClient]:
    """A client that claims a name which would steer a terminal, and provides a service that somebody subscribed to."""
    with ObjectsClient(port=place.server.port("objects")) as client, SppClient(port=place.server.port("spp")) as screen:
        client.subscribe(receive_mode="no_echo", user=HOSTILE, name="a lamp")
        client.register("hall/lamp 1")
        screen.subscribe("hall/lamp 1")
        screen.wait_for(lambda event: isinstance(event, spp.Info))
        yield client
