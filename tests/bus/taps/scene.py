"""Taps on a server with members of all vocabularies."""

from typing import Any

from bussrv.bus.taps.tap import Tap, TapFilter, Tapped
from bussrv.wire.objects import encode
from tests.formats.network import Member, Network, drain
from tests.formats.websocket.browser import web_member

MOST = 1 << 20


def opened(network: Network, actor: str | None = None, most: int = MOST, **wanted: Any) -> Tap:
    tap = network.bus.taps.open(TapFilter(**wanted), actor=actor, peer="127.0.0.1:1", protocol="admin", most=most)
    assert isinstance(tap, Tap)
    return tap


def taken(tap: Tap) -> list[Tapped]:
    return list(iter(tap.take, None))


def kinds(tap: Tap) -> list[str]:
    """The content type, or ``@`` and the event, of everything since the last time."""
    return [f"@{each.event}" if each.event else str(each.type) for each in taken(tap)]


class Scene:
    """Members of all vocabularies, a device and a watcher of ``tv``, which ``maker`` provides."""

    def __init__(self, **settings: Any) -> None:
        self.network = network = Network(**settings)
        self.maker = network.member(receive_mode="no_echo", **{"routing-id": "maker"})
        self.maker.send({"event": "services/register", "name": "tv"})
        self.office = network.business(receive="no_echo", **{"unique-routing-id": "office"})
        self.page = web_member(network, **{"routing-id": "page"}, types="none")
        self.watcher = network.watcher()
        self.watcher.subscribe("tv")
        network.udp.subscribe("tv")
        drain([self.maker, self.office, self.page])


def sent(member: Member, number: int, payload: bytes = b"") -> None:
    member.connection.send_bytes(b"".join(encode({"type": "a/b", "n": n}, payload) for n in range(number)))
