"""What a judgement is given, and what it says when a promise is broken."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from msgspec import Struct
from twisted.logger import globalLogPublisher

from bussrv.interfaces import IWireFormat
from bussrv.testing.conformance.adapter import Adapter, Login
from bussrv.testing.conformance.formats.objects import ObjectsAdapter
from bussrv.testing.conformance.lab import Lab, Restless, Unreadable, Visitor
from bussrv.testing.conformance.seen import Seen
from bussrv.testing.server import RunningServer

SERVICE = "door"
"""A service that another client provides."""

OWN = "lamp"
"""A service that the judged client provides."""

LET_IN, GUEST, KEPT_OUT = "10.1.0.1", "10.2.0.1", "10.3.0.1"
"""Addresses: of clients that may do everything with both services, of some that may do so at first, and of some that
may do nothing with them.
"""

NETWORKS = {LET_IN: "10.1.0.0/16", GUEST: "10.2.0.0/16", KEPT_OUT: "10.3.0.0/16"}

ELSEWHERE = "elsewhere"
"""A service that those who are kept out may use."""

PATIENCE = 20.0

_ACTIONS = ("provide", "publish", "watch", "request")


_FRAMES = re.compile(r'File "(.*?)", line (\d+)')
"""Lines of a traceback."""


class Broken(Exception):
    """A promise is broken. The text is one sentence, which says what was done and what came of it."""


class Promise(Struct, frozen=True):
    """One promise, and how a format is judged by it.

    :ivar name: the name of the judgement.
    :ivar says: what the promise is, in one sentence.
    :ivar needs: the capabilities without which it cannot be tried.
    :ivar is_real: whether it takes a server in a process of its own.
    """

    name: str
    says: str
    judge: Callable[[Trial], None]
    needs: tuple[str, ...] = ()
    is_real: bool = False


def promise(*needs: str, is_real: bool = False) -> Callable[[Callable[[Trial], None]], Promise]:
    """Make a promise of a judgement: its docstring is what the format promises."""

    def make(judge: Callable[[Trial], None]) -> Promise:
        says = " ".join((judge.__doc__ or "").split())
        return Promise(judge.__name__.replace("_", "-"), says, judge, needs, is_real)

    return make


class Trial:
    """One trial of a format.

    :param installed: finds the plugin of a format by its name.
    :param seed: of everything that is drawn.
    :param start: starts a server in a process of its own.
    :param thorough: whether every place is tried where a sample would take less time.
    :param patience: seconds until something that has not come from a process never will.
    :ivar random: draws.
    :ivar on_sockets: what is seen of clients on real sockets.
    """

    def __init__(
        self,
        adapter: Adapter,
        installed: Callable[[str], IWireFormat],
        seed: int = 0,
        *,
        start: Callable[..., RunningServer] = RunningServer,
        thorough: bool = False,
        patience: float = PATIENCE,
    ) -> None:
        self.adapter = adapter
        self.installed = installed
        self.seed = seed
        self.start = start
        self.thorough = thorough
        self.patience = patience
        self.random = Random(seed)
        self.labs: list[Lab] = []
        self.on_sockets: list[Seen] = []
        self._open = ExitStack()
        self._mute()

    def _mute(self) -> None:
        """Only the servers of the trial observe the log: other observers may keep events, and connections with them."""
        others = list(globalLogPublisher._observers)
        for each in others:
            globalLogPublisher.removeObserver(each)
            self._open.callback(globalLogPublisher.addObserver, each)

    def lab(self, *further: Adapter, **options: Any) -> Lab:
        """A server with the judged format and Object System; see :class:`Lab`."""
        formats = {each.name: each for each in (ObjectsAdapter(), *further)}
        formats[self.adapter.name] = self.adapter
        lab = Lab(formats.values(), self.installed, **options)
        return self.watch(lab)

    def lab_without(self) -> Lab:
        """A server that has no ports."""
        return self.watch(Lab((), self.installed))

    def watch(self, lab: Lab) -> Lab:
        """Count a server among those of the trial."""
        self.labs.append(lab)
        self._open.callback(lab.close)
        return lab

    def close(self) -> None:
        """The trial is over."""
        self._open.close()

    def failure(self) -> str | None:
        """The first failure of a server of the trial: the last line of its traceback, and where that was."""
        for lab in self.labs:
            for text in lab.failures:
                *_, last = text.strip().splitlines()
                *_, place = [("no file", "0"), *_FRAMES.findall(text)]
                return f"{last.strip()} ({Path(place[0]).name}, line {place[1]})"
            if lab.counters["internal-error"]:
                return "the server counted internal-error"
        return None

    @property
    def seen(self) -> list[Seen]:
        """All clients, as they were seen, in the order in which their servers were made."""
        return [*(each for lab in self.labs for each in lab.seen), *self.on_sockets]

    @property
    def seen_last(self) -> list[Seen]:
        """The clients of the last server, as they were seen."""
        return self.labs[-1].seen if self.labs else self.on_sockets

    def read_rest(self) -> None:
        """The clients of the last server read what they were not asked for: it may be a refusal."""
        for visitor in self.labs[-1].visitors if self.labs else ():
            with suppress(Restless, Unreadable):
                visitor.said()

    def some(self, places: Sequence[int], most: int) -> Sequence[int]:
        """All of these if the trial is thorough, otherwise at most ``most`` of them, which are drawn."""
        return places if self.thorough or len(places) <= most else sorted(self.random.sample(places, most))

    # Clients.

    @property
    def name(self) -> str:
        """The name of the format."""
        return self.adapter.name

    def client(self, lab: Lab, login: Login | None = None, host: str = "") -> Visitor:
        """A client of the judged format that has joined."""
        return lab.member(self.name, login, host)

    def provider(self, lab: Lab, service: str = SERVICE, host: str = LET_IN, login: Login | None = None) -> Visitor:
        """A client of Object System that provides a service."""
        member = lab.member("objects", login, host)
        member.provide(service)
        return member

    def observer(self, lab: Lab, service: str, host: str = LET_IN, login: Login | None = None) -> Visitor:
        """A client of Object System that is subscribed to a service."""
        member = lab.member("objects", login, host)
        member.subscribe(service)
        return member

    def rules(self, *allowed: str, **kept_out: list[str]) -> str:
        """A policy.

        :param allowed: the addresses of clients that may do everything with the services of the kit.
        :param kept_out: what those may do besides that are kept out.
        """
        services = [SERVICE, OWN, "bystanders", "kit/*"]
        rules = [
            {"networks": [NETWORKS[each] for each in allowed], **dict.fromkeys(_ACTIONS, services)},
            {"networks": [NETWORKS[KEPT_OUT]], **{action: [ELSEWHERE] for action in _ACTIONS}},
            {"networks": [NETWORKS[KEPT_OUT]], **kept_out},
        ]
        # Members of the object network need these besides; they decide nothing about services.
        network = 'send = ["@*"]\nobserve = ["@*"]\n'
        return "\n".join(f"[[rule]]\n{_toml(each)}{network}" for each in rules)

    # Verdicts.

    def broken(self, sentence: str) -> NoReturn:
        """:raises Broken: always."""
        raise Broken(sentence)

    def require(self, holds: object, sentence: str) -> None:
        """:raises Broken: ``holds`` is not true."""
        if not holds:
            raise Broken(sentence)

    def bystanders(self, lab: Lab, login: Login | None = None) -> tuple[Visitor, Visitor]:
        """Two other clients: one provides a service to which the other is subscribed."""
        return self.provider(lab, "bystanders", login=login), self.observer(lab, "bystanders", login=login)

    def check_served(self, lab: Lab, after: str, bystanders: tuple[Visitor, Visitor] | None = None) -> None:
        """Other clients are served: what one publishes reaches the other.

        :param after: what was done before, for the sentence.
        :param bystanders: those that were there before; ``None``: they come for this.
        """
        provider, observer = bystanders or self.bystanders(lab)
        provider.publish("bystanders", b"news")
        got = observer.published()
        if bystanders is None:
            provider.leave()
            observer.leave()
        self.require(got == [("bystanders", b"news")], f"other clients are not served any more {after}")


def conversation(who: Visitor | Adapter, payload: bytes = b"on") -> Iterator[bytes]:
    """What a client says that does everything that its format can, message by message.

    :param who: the client; or an adapter, for one that is not there.
    """
    adapter, client = (who, who.client()) if isinstance(who, Adapter) else (who.adapter, who.client)
    can = adapter.can
    yield client.join()
    if can("publish"):
        if can("provide"):
            yield client.provide(OWN)
        yield client.publish(OWN, payload)
    yield client.subscribe(SERVICE)
    if can("publish") and can("mixed"):
        yield client.publish(OWN, payload * 2)


def _toml(rule: dict[str, list[str]]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in rule.items())
