"""What the author of a wire format tells the kit: how a client of the format speaks, and what it cannot say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Any, ClassVar, TypeAlias

from msgspec import Struct

CAPABILITIES: Mapping[str, str] = {
    "stream": "Clients send bytes over a connection.",
    "pipelining": "A client may send its next message before the last one is answered.",
    "login": "A client can say who it is, with a secret.",
    "confirm": "A client is told that it is subscribed, or that it provides a service.",
    "deny": "A client is not told that it is subscribed to a service that it may not watch.",
    "refuse": "A client is told that a request is refused, and stays connected.",
    "provide": "A client provides a service by a message of its own, before it publishes.",
    "publish": "A client can publish.",
    "mixed": "A client that is subscribed can publish over the same connection.",
    "unsubscribe": "A client can end a subscription.",
    "pattern": "A client can subscribe to all services below a name at once, also to those that appear later.",
    "finer": "A client can subscribe to some of the services below a name, by a pattern of the format's own.",
    "ask": "A client can send a request to a service.",
    "miss": "A client is told that nobody provides the service that it sends a request to.",
    "answer": "A client that provides a service is given requests, and can answer them.",
    "bytes": "A payload may consist of any bytes.",
    "empty": "A payload may be empty.",
    "state": "A new subscriber is first given the present state of the service.",
}
"""What a format may be capable of."""

OPTIONAL: Mapping[str, str] = {"finer": "subscribe_finer"}
"""Capabilities that a format lacks unless its client has the method."""


class Login(Struct, frozen=True):
    """A user, and its secret."""

    user: str
    secret: str


class Published(Struct, frozen=True):
    """The client was given a publication on a service."""

    service: str
    payload: bytes


class Confirmed(Struct, frozen=True):
    """The client was told that something is done.

    :ivar what: ``login``, ``subscribe``, ``unsubscribe``, ``provide`` or ``publish``.
    """

    what: str


class Refused(Struct, frozen=True):
    """The client was told that something is refused; ``why``, in any words."""

    why: str


class Asked(Struct, frozen=True):
    """The client was given a request for a service that it provides.

    :ivar key: whatever :meth:`Client.answer` needs to know of it.
    """

    service: str
    payload: bytes
    key: str = ""


class Answered(Struct, frozen=True):
    """The client was given the reply to its request."""

    payload: bytes


class Reaction(Struct, frozen=True):
    """The client has to send this, since the format wants an answer of it: an acknowledgement, for example."""

    data: bytes


Said: TypeAlias = Published | Confirmed | Refused | Asked | Answered | Reaction


def events_of(reader: Any, data: bytes) -> Iterator[Any]:
    """The events of a reader, one of :class:`bussrv.plugin.StreamReader`, when the next bytes have come."""
    reader.feed(data)
    while (found := reader.next_event()) is not None:
        yield found


class Client:
    """One client of the format: makes the bytes that it sends, and reads those that it is sent.

    Override :meth:`read`, :meth:`subscribe`, and the methods of all further capabilities of the format. Each of them
    returns one message. In a format over datagrams, that is one datagram. A client that cannot say a name raises
    ``ValueError``.

    :param login: who the client says it is when it joins; ``None``: it does not say.
    :ivar numbers: that differ, for messages that bear one.
    :ivar address: the host and port of the client, for formats whose messages state them. The kit sets it.
    """

    address: tuple[str, int] = ("127.0.0.1", 4711)

    def __init__(self, login: Login | None = None) -> None:
        self.login = login
        self.numbers = count(1)

    def join(self) -> bytes:
        """The first message, which also says who the client is; empty: it has nothing to say."""
        return b""

    def subscribe(self, service: str) -> bytes:
        """The client wants the publications on a service."""
        raise NotImplementedError

    def subscribe_below(self, service: str) -> bytes:
        """The client wants the publications on all services whose names begin with ``service`` and a slash."""
        raise NotImplementedError

    def subscribe_finer(self, service: str, wanted: str, other: str) -> bytes:
        """The client wants publications below ``service`` and a slash, by a pattern of the format's own.

        Only formats with patterns that are finer than those of the bus have this method. The pattern covers the service
        ``wanted``, and not the service ``other``, which are both below ``service``. For globs, ``kit/t*`` would do for
        ``kit/tea`` and ``kit/milk``.
        """
        raise NotImplementedError

    def unsubscribe(self, service: str) -> bytes:
        """The client does not want them any more."""
        raise NotImplementedError

    def provide(self, service: str) -> bytes:
        """The client provides a service."""
        raise NotImplementedError

    def publish(self, service: str, payload: bytes) -> bytes:
        """The client publishes on a service, which it provides if the format has the capability ``provide``."""
        raise NotImplementedError

    def ask(self, service: str, payload: bytes) -> bytes:
        """The client sends a request to a service."""
        raise NotImplementedError

    def answer(self, asked: Asked, payload: bytes) -> bytes:
        """The client answers a request."""
        raise NotImplementedError

    def unfinished(self, size: int) -> bytes | Iterable[bytes]:
        """A message of about ``size`` bytes, without its end. By default a publication or a subscription.

        A format whose messages have parts yields several, one of which has as many small parts as it may: a reader that
        keeps parts holds far more memory for them than their bytes.
        """
        try:
            whole = self.publish("lamp", b"x" * size)
        except NotImplementedError:
            whole = self.subscribe("x" * size)
        return whole[:-1]

    def read(self, data: bytes) -> Iterable[Said]:
        """What the client is told by the next bytes, which may begin and end anywhere; or by one datagram.

        Leave out what has no name here. Raise any exception if it cannot be understood.
        """
        raise NotImplementedError


def shapes_of(client: Client, size: int) -> list[bytes]:
    """The unfinished messages of a client of about so many bytes, of each shape that it knows."""
    made = client.unfinished(size)
    return [made] if isinstance(made, bytes) else list(made)


class OddInput(Struct, frozen=True):
    """Something unusual that a client may send: malformed, hostile, huge, or an oddity that is allowed.

    :ivar data: the bytes; large ones are made when they are needed. Over datagrams, one datagram.
    :ivar joins: whether the client sends its first message before.
    :ivar asks: whether it is sent to a server that asks clients who they are; then it comes first.
    :ivar holds: the bytes of memory that it may take besides, for what it rightly asks for, such as services. Some of
        them may be kept for a while when its session is closed, as figures.
    """

    name: str
    data: bytes | Callable[[], bytes]
    joins: bool = True
    asks: bool = False
    holds: int = 0

    def build(self) -> bytes:
        """The bytes."""
        return self.data if isinstance(self.data, bytes) else self.data()


class Adapter:
    """A wire format, for the kit.

    :cvar name: the name of the format, as in its plugin file.
    :cvar client: the class of its clients.
    :cvar absent: the capabilities that the format lacks; for each of them the reason, as a sentence.
    :cvar max_payload: the most bytes of a payload that a client can publish.
    :cvar lapses_after: over datagrams: seconds after which nothing is left of a client that says nothing.
    :cvar settings: options that its port needs, by their names in :class:`bussrv.settings.Settings`.
    """

    name: ClassVar[str]
    client: ClassVar[type[Client]]
    absent: ClassVar[Mapping[str, str]] = {}
    max_payload: ClassVar[int] = 1 << 20
    lapses_after: ClassVar[float] = 0.0
    settings: ClassVar[Mapping[str, Any]] = {}

    def __init__(self) -> None:
        unknown = sorted(self.absent.keys() - CAPABILITIES.keys())
        if unknown:
            raise ValueError(f"there is no capability {', '.join(unknown)}; there are {', '.join(CAPABILITIES)}")
        silent = [name for name, reason in self.absent.items() if not reason.strip()]
        if silent:
            raise ValueError(f"say why the format lacks {', '.join(silent)}")

    def odd_inputs(self) -> Iterable[OddInput]:
        """What else a client may send. The kit tries of each that it harms nobody, and garbles messages besides."""
        return ()

    def why_not(self, needs: Iterable[str]) -> str | None:
        """The reason why the format lacks one of these capabilities; ``None``: it has them all."""
        for each in needs:
            if not self.can(each):
                return self.absent.get(each) or f"The client of the adapter has no method {OPTIONAL[each]}."
        return None

    def can(self, capability: str) -> bool:
        """Whether the format has a capability."""
        method = OPTIONAL.get(capability, "")
        has_method = not method or getattr(self.client, method) is not getattr(Client, method)
        return has_method and capability not in self.absent
