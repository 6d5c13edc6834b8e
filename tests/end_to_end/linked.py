"""Several servers that are linked, with a member on each that hears everything."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bussrv import events as ev
from bussrv.client.business import BusinessClient
from bussrv.client.objects import Object, ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.testing.server import RunningServer
from bussrv.wire import spp
from tests.end_to_end.cables import Bench, Cable
from tests.end_to_end.journals import records
from tests.forked import ForkedServer

_LINK = re.compile(r" link to (\S+) at \S+ is (up|down)")
SOON = ("--max-link-delay", "0.01", "--link-allow", "127.0.0.1")
"""Dial again soon: all that is left of the delay is its jitter, of up to a second. Others on this machine may link."""


class Member:
    """A client that keeps all it hears.

    :param client: subscribed already.
    """

    def __init__(self, client: ObjectsClient | BusinessClient) -> None:
        self.client = client
        self.heard: list[Object] = []
        assert client.routing_id is not None
        self.id: str = client.routing_id

    def hear(self, wanted: Callable[[dict[str, Any]], bool], since: int = 0) -> Object:
        """The first object that is wanted, among those it heard and those it will.

        :param since: how many of those it heard are not looked at.
        """
        for each in self.heard[since:]:
            if wanted(each.metadata):
                return each
        while True:
            self.heard.append(self.client.receive())
            if wanted(self.heard[-1].metadata):
                return self.heard[-1]

    def hear_from(self, sender: Member, event: str, since: int = 0) -> Object:
        """An event that another member sent."""
        return self.hear(lambda each: each.get("event") == event and each["route"][0] == sender.id, since)

    def hear_of(self, event: str, routing_id: str, since: int = 0) -> Object:
        """An announcement of another member."""
        return self.hear(lambda each: (each.get("event"), each.get("routing-id")) == (event, routing_id), since)

    def hear_that_all_joined(self, ids: Iterable[str], since: int = 0) -> None:
        for each in ids:
            if each != self.id:
                self.hear_of("routing/subscribe/notify", each, since)

    def hear_that_all_left(self, ids: Iterable[str], since: int = 0) -> None:
        for each in ids:
            self.hear_of("routing/disconnect", each, since)

    def payloads(self, sender: str) -> list[bytes]:
        """The contents that a member sent, as they came."""
        return [each.payload for each in self.heard if each.payload and each.metadata["route"][0] == sender]

    def announced(self, event: str) -> Counter[str]:
        """How often each member was announced."""
        return Counter(each.metadata["routing-id"] for each in self.heard if each.metadata.get("event") == event)


class LinkedServers:
    """Servers named by letters, started at the same time; a context manager that kills what still runs.

    :param directory: holds a journal for each.
    :param links: pairs such as ``ab``: the server a dials the server b, over a cable that is not plugged in yet.
    :param options: of every server.
    :ivar watchers: a member of each server: those that it hears of are known there.
    """

    def __init__(self, directory: Path, links: Iterable[str], options: Iterable[str] = ()) -> None:
        self._directory = directory
        self._links = tuple(links)
        self._options = tuple(options)
        self._stack = ExitStack()
        self._read: Counter[tuple[str, str]] = Counter()
        self.names = sorted(set("".join(self._links)))
        self.servers: dict[str, RunningServer] = {}
        self.cables: dict[str, Cable] = {}
        self.watchers: dict[str, Member] = {}

    def __enter__(self) -> LinkedServers:
        with self._stack as stack:
            bench = stack.enter_context(Bench())
            for pair in self._links:
                self.cables[pair] = Cable(bench)
                stack.callback(self.cables[pair].close)
            self._start_all()
            for name in self.names:
                self.rejoin(name)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stack.__exit__(*raised)

    def __getitem__(self, name: str) -> RunningServer:
        return self.servers[name]

    def _start_all(self) -> None:
        with ThreadPoolExecutor(len(self.names)) as pool:
            starting = {name: pool.submit(self._start, name) for name in self.names}
        for name, started in starting.items():
            self.servers[name] = self._stack.enter_context(started.result())

    def _start(self, name: str) -> RunningServer:
        dialed = [f"--link=tcp:127.0.0.1:{self.cables[pair].port}" for pair in self._links if pair[0] == name]
        options = ["--server-id", name, "--services", "off", "--link-allow", "127.0.0.1", *dialed, *self._options]
        return ForkedServer(self._directory / name, options)

    def start_again(self, name: str) -> None:
        """Start a server again that has ended. Cables to it have to be plugged in again."""
        self.servers[name] = self._stack.enter_context(self._start(name))
        for seen in [each for each in self._read if each[0] == name]:
            del self._read[seen]

    def rejoin(self, name: str) -> None:
        """A server has a watcher, once more."""
        client = self.client(name)
        client.subscribe(routing_id=f"watcher-{name}")
        self.watchers[name] = Member(client)

    # Cables and links.

    def plug(self, *pairs: str) -> None:
        """Plug cables in, all of them if none is named, and wait until every link is up."""
        for pair in pairs or self._links:
            self.cables[pair].plug(self.servers[pair[1]].addresses["objects"])
        for pair in pairs or self._links:
            self.wait_for_link(pair, "up")

    def unplug(self, pair: str) -> None:
        """Unplug a cable, and wait until both ends have noticed."""
        self.cables[pair].unplug()
        self.wait_for_link(pair, "down")

    def wait_for_link(self, pair: str, state: str) -> None:
        """Wait until the link is up, or down, on both ends."""
        for name, other in (pair, pair[::-1]):
            while self.next_about(name, other) != state:
                pass

    def next_about(self, name: str, other: str) -> str:
        """What a server logs of a link next: that it is ``up``, or ``down``."""
        lines = self.servers[name].lines
        while True:
            at = self._read[name, other]
            line = lines[at] if at < len(lines) else self.servers[name].next_line()
            self._read[name, other] += 1
            said = _LINK.search(line)
            if said is not None and said[1] == other:
                return said[2]

    def wait_until_all_is_known(self) -> None:
        """Wait until each server knows the watchers of all the others."""
        for watcher in self.watchers.values():
            watcher.hear_that_all_joined(each.id for each in self.watchers.values())

    # Clients.

    def client(self, name: str) -> ObjectsClient:
        """A client that has not subscribed; closed at the end."""
        return self._stack.enter_context(ObjectsClient(port=self.servers[name].port("objects")))

    def join(self, name: str, heard_by: str = "", **attributes: Any) -> Member:
        """A member of one server, once the watchers know it: all of them, or those of some servers."""
        client = self.client(name)
        client.subscribe(**attributes)
        return self._joined(client, heard_by)

    def join_business(self, name: str) -> Member:
        """A member that speaks Business Object, as :meth:`join`."""
        client = self._stack.enter_context(BusinessClient(port=self.servers[name].port("business")))
        client.register()
        return self._joined(client)

    def _joined(self, client: ObjectsClient | BusinessClient, heard_by: str = "") -> Member:
        member = Member(client)
        for name in heard_by or self.names:
            self.watchers[name].hear_of("routing/subscribe/notify", member.id)
        return member

    def hear_everybody(self, members: Iterable[Member], event: str) -> None:
        """Let every member say something, and wait until all of them have heard it from all."""
        members = tuple(members)
        for member in members:
            member.client.send({"event": event})
        for listener in members:
            for speaker in members:
                listener.hear_from(speaker, event)

    def settle(self, members: Iterable[Member]) -> None:
        """Wait until the members have heard all that was said, and would have heard again what is still under way."""
        members = tuple(members)
        self.hear_everybody(members, "end")
        self.flush()
        self.hear_everybody(members, "over")

    def wait_for_service(self, service: str, names: Iterable[str] = "") -> None:
        """Wait until servers, all of them if none is named, know a service."""
        for name in names or self.names:
            with SppClient(port=self.servers[name].port("spp")) as spp_client:
                spp_client.wait_for(lambda event: event == spp.Offer(service))

    def flush(self) -> None:
        """Wait until everything that was sent over a link has arrived: what is sent behind it comes after it."""
        for name, other in (ends for pair in self._links for ends in (pair, pair[::-1])):
            sender, recipient = self.watchers[name], self.watchers[other]
            since = len(recipient.heard)
            sender.client.send({"event": "flush", "to": recipient.id})
            recipient.hear_from(sender, "flush", since)

    def neighbors(self, name: str) -> list[str]:
        """The servers that a server says it is linked with."""
        watcher = self.watchers[name]
        since = len(watcher.heard)
        watcher.client.send({"event": "routing/neighbors", "to": name, "id": "neighbors"})
        reply = watcher.hear(lambda each: each.get("in-reply-to") == "neighbors", since)
        return list(reply.metadata["neighbors"])

    # The end.

    def part(self) -> None:
        """Unplug every cable, and wait until each server has noticed, and written down what it lost."""
        for cable in self.cables.values():
            cable.unplug()
        for name in self.names:
            while self.neighbors(name):
                pass
            # This is written behind it.
            self.watchers[name].client.register("something")
            self.watchers[name].client.unregister("something")

    def stop(self) -> None:
        """Stop every server as Ctrl-C does, all at once."""
        with ThreadPoolExecutor(len(self.names)) as pool:
            assert list(pool.map(RunningServer.stop, self.servers.values())) == [0] * len(self.names)

    def journal(self, name: str) -> list[ev.Event]:
        """Every event in the journal of a server."""
        return [record.event for record in records(self._directory / name)]


def tracebacks(server: RunningServer) -> list[str]:
    """The lines of a log that say that something went wrong unexpectedly."""
    return [line for line in server.lines if "Traceback" in line or "Unhandled" in line]


def assert_journal_is_closed(events: list[ev.Event]) -> None:
    """Each opened session is closed exactly once, but those that outlive the server; links go up and down in turn."""
    lasting = {each.session for each in events if isinstance(each, ev.SessionOpened) and each.persistent}
    events = [each for each in events if each.session not in lasting]
    opened = [each.session for each in events if isinstance(each, ev.SessionOpened)]
    closed = [each.session for each in events if isinstance(each, ev.SessionClosed)]
    assert len(set(opened)) == len(opened)
    assert [each for each in opened if closed.count(each) != 1] == []
    assert set(closed) == set(opened)
    registered = Counter((e.session, e.service) for e in events if isinstance(e, ev.ServiceRegistered))
    unregistered = Counter((e.session, e.service) for e in events if isinstance(e, ev.ServiceUnregistered))
    assert registered == unregistered
    for other in {each.routing_id for each in events if isinstance(each, ev.LinkUp)}:
        turns = [type(e) for e in events if isinstance(e, (ev.LinkUp, ev.LinkDown)) and e.routing_id == other]
        assert turns == [ev.LinkUp, ev.LinkDown] * (len(turns) // 2)
