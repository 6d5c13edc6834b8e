"""Who is told of incidents changes with a reload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, DeferredQueue
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from bussrv import events as ev
from bussrv.incidents.judging import Incident
from tests.server.running.test_reload import Running


class Receiver(Resource):
    """A web server that notes what is posted.

    :ivar posted: the path, the event, and the kind of the incident.
    """

    isLeaf = True  # noqa: N815 - the name is that of Twisted

    def __init__(self) -> None:
        super().__init__()
        self.posted: DeferredQueue[tuple[str, str, str]] = DeferredQueue()
        self.port: Any = reactor.listenTCP(0, Site(self), interface="127.0.0.1")  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self.port.getHost().port}"

    def render_POST(self, request: Any) -> bytes:
        event = request.getHeader("Bussrv-Incident")
        self.posted.put((request.path.decode(), event, json.load(request.content)["kind"]))
        return NOT_DONE_YET if request.path == b"/hangs" else b""


@pytest_twisted.ensureDeferred
async def test_a_reload_changes_who_is_told_of_incidents(tmp_path: Path) -> None:
    receiver = Receiver()
    running = Running(tmp_path, "")
    incidents = running.server._view.incidents

    def happens(what: str) -> None:
        incidents.over(Incident(what=what, server="hall", number=1, begin=1, end=2))

    happens("crash")
    running.reload(f'incident-webhook = "{receiver.url}/hangs"')
    happens("identity")
    assert await receiver.posted.get() == ("/hangs", "began", "identity")
    running.reload(f'incident-webhook = "{receiver.url}/two"')
    assert await receiver.posted.get() == ("/two", "began", "identity")
    assert await receiver.posted.get() == ("/two", "over", "identity")
    happens("takeover")
    assert await receiver.posted.get() == ("/two", "began", "takeover")
    assert await receiver.posted.get() == ("/two", "over", "takeover")
    # What is refused changes nothing.
    running.reload('incident-webhook = "no url"')
    assert running.outcome() == "failed"
    happens("guessing")
    assert await receiver.posted.get() == ("/two", "began", "guessing")
    assert await receiver.posted.get() == ("/two", "over", "guessing")
    running.reload('on-incident = "true"')
    running.reload("")
    happens("crash")
    silence: Deferred[Any] = receiver.posted.get()
    reloads = await running.stop()
    assert not silence.called
    changed = [each.changed for each in reloads if isinstance(each, ev.ConfigReloaded)]
    assert changed == [
        ("incident-webhook",), ("incident-webhook",), ("incident-webhook", "on-incident"), ("on-incident",)
    ]  # fmt: skip
    await receiver.port.stopListening()
