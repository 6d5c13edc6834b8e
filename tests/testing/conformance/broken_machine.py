"""Deliberately broken plugins that only a process of its own shows: the format of the page, each with one fault."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from bussrv.testing.server import RunningServer
from tests.docs.pages import blocks
from tests.testing.conformance.broken import FORMAT, PAGE, Fault, broken_source, hooked

LISTENS = "def listen(bus, endpoint, reactor):\n"
SUBSCRIBES = "        await self.subscribe(name)\n"

FAULTS = (
    Fault(
        "subscriptions are kept past the journal",
        SUBSCRIBES,
        "        def look():\n"
        "            if not self.has_ended:\n"
        "                self.send([b'%s %s\\n' % (name.encode(), self.state_of(name))])\n"
        "                self.reactor.callLater(0.05, look)\n"
        "        look()\n",
        "a-kill-loses-nothing",
        "after kill -9, the journal lacks a subscription that was in effect",
    ),
    Fault(
        "a file of the last boot keeps the next one from its start",
        LISTENS,
        f"{LISTENS}    open(__file__ + '.lock', 'x').close()\n",
        "a-kill-loses-nothing",
        "the server does not start after kill -9: ",
    ),
    Fault(
        "nothing comes over a real socket",
        FORMAT,
        hooked("def connectionMade(self):\n    self.transport.pauseProducing()\n    self.transport.loseConnection()"),
        "a-kill-loses-nothing",
        "over a real socket, a client is given no publication within",
    ),
    Fault(
        "the port never stops",
        "    return StreamListener(",
        "    class Stuck(StreamListener):\n"
        "        def stopService(self):\n"
        "            super().stopService()\n"
        "            return Deferred()\n"
        "        def drain(self, seconds):\n"
        "            return self.stopService()\n"
        "    return Stuck(",
        "a-signal-ends-sessions-in-time",
        "after SIGTERM, the server has not ended within",
    ),
    Fault(
        "clients are kept when the port stops",
        "    return StreamListener(",
        "    class Stuck(StreamListener):\n"
        "        def stopService(self):\n            return Deferred()\n"
        "        def drain(self, seconds):\n            return Deferred()\n"
        "    return Stuck(",
        "a-signal-ends-sessions-in-time",
        "seconds after SIGTERM, a client is still connected",
    ),
    Fault(
        "the end of a session ends the process",
        FORMAT,
        hooked("def closed(self, reason):\n    __import__('os')._exit(3)"),
        "a-signal-ends-sessions-in-time",
        "after SIGTERM, the server ends with status 3",
    ),
    Fault(
        "each client leaves something in memory",
        FORMAT,
        hooked("kept = []\ndef opened(self):\n    self.kept.append(b'x' * (4 << 20))"),
        "odd-input-lets-no-server-grow",
        "a server that is sent everything odd again takes ",
    ),
)


def starting(fault: Fault, place: Path) -> Any:
    """Starts servers with the plugin, which is put into a directory."""
    (place / "twisted/plugins").mkdir(parents=True)
    (place / "lines_format.py").write_text(broken_source(fault))
    (file,) = (each for each in blocks(PAGE, "python") if "lines = WireFormat(" in each)
    (place / "twisted/plugins/lines_plugin.py").write_text(file)
    return partial(RunningServer, environment={"PYTHONPATH": f"{place}:{Path.cwd()}"})
