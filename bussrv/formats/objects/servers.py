"""A port of Object System for linked servers and uplinks alone: clients are refused there.

So it may be where clients shall not get at all, such as a UNIX socket that only the user of an uplink may open.
"""

from __future__ import annotations

from typing import Any

from bussrv.formats.objects.members import MemberProtocol
from bussrv.formats.objects.object_system import link
from bussrv.formats.objects.vocabulary import Vocabulary
from bussrv.plugin import IBus, StreamFactory, StreamListener
from bussrv.wire.objects import BusObject


def join_server(member: MemberProtocol, obj: BusObject) -> None:
    """``routing/subscribe``: the session is a linked server, or is refused."""
    if obj.fields().get("role") == "server":
        member.busy_with(member.join_server(obj))
    else:
        member.refuse(obj.head.id, "bad-subscription", "this port is for linked servers and uplinks")
        member.end("bad-subscription")


class ServersProtocol(MemberProtocol):
    """One connection of a server that has dialed this one, or of an uplink."""

    FORMAT = "objects"
    VOCABULARY = Vocabulary(joining=("routing/subscribe",), events={"routing/subscribe": join_server})

    async def join_server(self, obj: BusObject) -> None:
        """Link with another server."""
        await link(self, obj, None)


def listen(bus: IBus, endpoint: str, reactor: Any) -> StreamListener:
    """Serve linked servers; see :meth:`bussrv.interfaces.IWireFormat.listen`."""
    return StreamListener(StreamFactory(ServersProtocol, bus, reactor), endpoint, reactor)
