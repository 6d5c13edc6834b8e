"""The node: a net of servers, as one of them sees it. To it, all others together are one linked server. Pure.

What comes from the server goes to a subject; what comes from the engine goes to the server as it is::

    from the server               goes to
    advertisements, interest      the directory of this server
    a request                     the server of a provider, in turn; if nobody registered, as any event
    a reply, an error             the server that asked
    an object with a ``to``       the servers of its addressees; if one is unknown, everybody who wants objects, too
    a publication on K            the subject of K
    any other object              everybody who wants objects

An object of a server that is on the net itself is not sent for it: it came over a link, and crosses by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Set
from functools import lru_cache, partial
from typing import Any

import msgspec
from msgspec import UNSET, field

from bussrv.bus.interest.vocabulary import FAREWELL, GAP, INTEREST, NEIGHBORS, REPLYING, REQUEST
from bussrv.bus.links.advertisement_fields import ADVERTISEMENTS, NAMES, NOTIFY, REGISTER
from bussrv.bus.links.paths import Paths
from bussrv.bus.services.bridge import as_publication
from bussrv.errors import Refused, RemoteProtocolError
from bussrv.uplink.crossing.arrivals import Arrivals
from bussrv.uplink.crossing.checks import MOST_CHECKED, Objects, is_routing_id, is_wanted_name
from bussrv.uplink.crossing.directory import MOST_COPIED, Directory, cost, everything, fold, merged, most_of
from bussrv.uplink.crossing.frames import unpack
from bussrv.uplink.crossing.interest import (
    MOST_NAMES_OF_NET,
    Interest,
    Together,
    differences,
)
from bussrv.uplink.crossing.outgoing import Advertised, Outgoing, Publisher
from bussrv.uplink.crossing.peers import Beat, Entries, Entry, Peer, Told, encode_entry, read_beat, read_entry
from bussrv.uplink.crossing.requests import Asked, OpenRequests
from bussrv.uplink.crossing.server_link import LIMITS, Limits
from bussrv.uplink.crossing.subjects import ISubjects
from bussrv.values import MAX_SERVICE_NAME
from bussrv.wire.objects import MAX_METADATA, BusObject, encode, encode_json

MOST_TOLD = 500
"""Of how many sessions the server is told in one go."""

MOST_SINCE_SNAPSHOT = 4 << 20
"""How many bytes of a directory are published before it is published as a whole again."""

MOST_SERVERS = 1_000
"""The most other servers of a net. Further ones are ignored."""

ADDING = (*NOTIFY, REGISTER)
"""Advertisements that tell of more."""

MOST_ROUTES = 65_536
"""The most routes of objects that are remembered. Beyond it, all are forgotten."""

_decode_route = msgspec.json.Decoder(list[str]).decode


class Sender(Publisher):
    """The sender of objects that have one route.

    :ivar version: of the directory, when this was found.
    :ivar crosses: whether its objects are sent from here.
    :ivar provided: the services that it provides.
    :ivar services: the subjects of what it says in ``sender``.
    """

    version: int = -1
    crosses: bool = True
    provided: frozenset[str] = frozenset()
    services: dict[str | None, str] = field(default_factory=dict)


class Node:
    """The net, from the link with a server until its end.

    :param server: the routing id of the server.
    :param node: the routing id of the net.
    :param boot: 8 bytes that no other run has.
    :param limits: the most bytes of objects that the server takes.
    :param max_payload: the most bytes of the payload of an object that others may send.
    :param understood: what the server may be told; see :class:`bussrv.uplink.crossing.server_link.ILinked`.
    :ivar to_server: bytes that are to be sent to the server.
    :ivar is_told: whether the server has advertised everything.
    :ivar is_asked: whether somebody has to be told the whole directory.
    :ivar own: the interest of the server.
    :ivar kept: subjects of which the engine keeps what was sent: it comes from there, and late.
    :ivar arrivals: what came so far.
    :ivar pongs: the ids of pings that the server has answered.
    :ivar farewell: why the server ends the link; empty: it has not said so.
    :ivar snapshots: how often the whole directory was published.
    :ivar unknown: the servers whose directories have to be read, and when each was last heard of.
    """

    def __init__(
        self,
        server: str,
        node: str,
        boot: bytes,
        subjects: ISubjects,
        *,
        max_payload: int,
        limits: Limits = LIMITS,
        understood: Set[str] = frozenset(),
    ) -> None:
        self._understood = understood
        self.server = server
        self.node = node
        self.boot = boot.hex()
        self.subjects = subjects
        self.counters: Counter[str] = Counter()
        self.directory = Directory(server, node, takes_names=NAMES in understood)
        self.outgoing = Outgoing(server, boot)
        self.entries = Entries(self.boot)
        self.to_server: list[bytes] = []
        self.is_told = False
        self.is_asked = False
        self.own = Interest()
        self.peers: dict[str, Peer] = {}
        self.unknown: dict[str, float] = {}
        self.snapshots = 0
        self.farewell = ""
        self.kept: frozenset[str] = frozenset()
        self.pongs: list[str] = []
        self._own = Paths()
        self.arrivals = Arrivals(max_payload + 2 * MAX_METADATA)
        self._wanted = Together()
        self._requests = OpenRequests()
        self._limits = limits
        self._service = lru_cache(MOST_CHECKED)(subjects.service)
        self._objects_in = Objects(max_payload, limits)
        self._senders: dict[bytes, Sender] = {}
        self._objects = subjects.of("obj", server)

    def keep(self, services: Iterable[str]) -> None:
        """The engine keeps what is published on these services. So it is wanted, also while nobody is there."""
        names = frozenset(services)
        self.kept = frozenset(map(self.subjects.publication, names))
        self._wanted.set("", Interest(events=False, types=frozenset(), services=set(names)))

    # From the server.

    def received(self, objs: Iterable[BusObject]) -> None:
        """Objects came from the server."""
        add, senders, directory, objects = self.outgoing.add, self._senders, self.directory, self._objects
        for obj in objs:
            head = obj.head
            if head.event is not None or head.to is not None:
                self._special(obj)
                continue
            raw = bytes(head.route)
            sender = senders.get(raw)
            if sender is None or sender.version != directory.version:
                sender = self._find(raw)
            if not sender.crosses:
                self.counters["crosses-elsewhere"] += 1
                continue
            subject = sender.services.get(head.sender) if head.size or head.type else objects
            if subject is None:
                subject = self._subject(sender, obj)
            add(subject, sender, b"%b\0%b" % (obj.metadata, obj.payload))

    def _sender(self, obj: BusObject) -> Sender:
        """The sender of an object."""
        raw = bytes(obj.head.route)
        sender = self._senders.get(raw)
        return self._find(raw) if sender is None or sender.version != self.directory.version else sender

    def _find(self, raw: bytes) -> Sender:
        """Find out anew about the sender of objects with this route."""
        route = _route(raw)
        if len(self._senders) >= MOST_ROUTES:
            self._senders.clear()
        sender = self._senders.setdefault(raw, Sender())
        home = route[1] if len(route) > 1 else self.server
        sender.version = self.directory.version
        sender.crosses = home == self.server or home not in self.directory.servers
        sender.provided = self._own.services_of(route[0], route[1:]) if route else frozenset()
        sender.services = {}
        return sender

    def _subject(self, sender: Sender, obj: BusObject) -> str:
        publication = as_publication(obj, sender.provided)
        subject = self._objects if publication is None else self.subjects.publication(publication.service)
        name = obj.head.sender
        if obj.head.event is None and len(sender.services) < MOST_TOLD and len(name or "") <= MAX_SERVICE_NAME:
            sender.services[name] = subject
        return subject

    def _special(self, obj: BusObject) -> None:
        """An event, or an object for some sessions."""
        event = obj.head.event
        name = "" if event is None else event.lower()
        if event in ADVERTISEMENTS:
            self._advertised(obj)
        elif event == INTEREST:
            self.own.learn(obj.fields())
            self.outgoing.advertise(obj.metadata)
        elif event == NEIGHBORS:
            self.is_told = True
        elif event == FAREWELL:
            self.farewell = str(obj.fields().get("reason"))
        elif event in ("routing/subscribe", "routing/subscribe/reply", GAP):
            pass
        elif obj.head.to in (self.node, [self.node]):
            self._ask_node(obj, name)
        elif name in REPLYING:
            self._reply(obj)
        elif obj.head.to is not None:
            self._addressed(obj, obj.head.to)
        elif name != REQUEST or not self._request(obj):
            self._everybody(obj)

    def _advertised(self, obj: BusObject) -> None:
        try:
            fold(self._own, self.server, obj.fields())
        except Refused as refusal:
            self.counters[refusal.reason] += 1
            return
        self.directory.version += 1
        self.outgoing.advertise(obj.metadata)

    def _ask_node(self, obj: BusObject, name: str) -> None:
        """The server, or a client of it, asks the net itself."""
        answers: dict[str, dict[str, Any]] = {
            "ping": {"event": "pong", "routing-id": self.node},
            "routing/neighbors": {"event": "routing/neighbors/reply", "neighbors": sorted(self.peers)},
        }
        route = _route(bytes(obj.head.route))
        if name == "pong" and route == [self.server]:
            self.pongs.append(str(obj.fields().get("in-reply-to")))
        elif name in answers and route:
            about = {} if obj.head.id is UNSET else {"in-reply-to": obj.head.id}
            self._tell({**answers[name], **about, "to": route[0], "route": [self.node]})

    def _everybody(self, obj: BusObject) -> None:
        sender = self._sender(obj)
        if sender.crosses:
            self._send(self._subject(sender, obj), obj)

    def _addressed(self, obj: BusObject, to: str | list[str]) -> None:
        servers: set[str] = set()
        is_unknown = False
        for address in [to] if isinstance(to, str) else to:
            found = self.directory.servers_at(address)
            is_unknown |= found is None and not self._is_own(address)
            servers |= found or set()
        for server in sorted(servers):
            self._send(self.subjects.of("to", server), obj)
        if is_unknown:
            # Who gets it twice by this has a memory of what came.
            self._everybody(obj)

    def _is_own(self, address: str) -> bool:
        return self._own.best(address) is not None or address == self.server

    def _request(self, obj: BusObject) -> bool:
        """Give a request to the server of a provider. :returns: whether there is one."""
        fields = obj.fields()
        service = fields.get("name", fields.get("service"))
        server = self.directory.server_of_provider(service) if isinstance(service, str) else None
        if server is None:
            return False
        route = fields.get("route")
        if isinstance(obj.head.id, (str, int)) and route:
            self._requests.went_out(Asked(obj.head.id, route[0], server))
        self._send(self.subjects.of("to", server), obj)
        return True

    def _reply(self, obj: BusObject) -> None:
        if obj.head.to is not None:
            self._addressed(obj, obj.head.to)
            return
        server = self._requests.asker_of(obj.fields().get("in-reply-to"))
        if server is None:
            self.counters["reply-to-nobody"] += 1
        else:
            self._send(self.subjects.of("to", server), obj)

    def _send(self, subject: str, obj: BusObject) -> None:
        """Send an object; it stays in order with others of the same route."""
        self.outgoing.add(subject, self._sender(obj), b"%b\0%b" % (obj.metadata, obj.payload))

    # To the engine.

    def to_publish(self, most: int, *, may_repeat: bool = True) -> Iterator[tuple[str, bytes, int]]:
        """What is to be published, in order: subjects and messages, and how many objects each has.

        :param most: the most bytes of a message.
        :param may_repeat: whether the whole directory may be told to those who ask for it. Otherwise that is left.
        """
        if not self.is_told:
            return
        directory = self.subjects.of("reg", self.server)
        is_asked = self.is_asked and may_repeat
        is_whole = not self.entries.number or is_asked or self.entries.since > MOST_SINCE_SNAPSHOT
        if is_whole:
            self.is_asked = False
            for entry in self._snapshot(most):
                yield directory, entry, 0
        for each in self.outgoing.take(most):
            if not isinstance(each, Advertised):
                yield each
            elif not is_whole:
                for entry in self.entries.changes(each.events, most):
                    yield directory, entry, 0

    def _snapshot(self, most: int) -> Iterator[bytes]:
        remotes = (each for routing_id in self._own if (each := self._own.best(routing_id)) is not None)
        events = [*everything(remotes), *differences(None, self.own, [self.server])]
        self.snapshots += 1
        return self.entries.snapshot(list(map(encode_json, events)), most)

    def beat(self, *, left: bool = False) -> bytes:
        """A heartbeat."""
        return encode_entry(Beat(self.boot, self.entries.number, left))

    def beats(self) -> Iterator[tuple[str, bytes]]:
        """What is to be published with each beat: it, and what closes subjects that are not used any more."""
        yield self.subjects.of("beat", self.server), self.beat()
        yield from (each for each in self.outgoing.closings() if each[0] not in self.kept)

    def listens_to(self) -> set[str]:
        """The subjects to subscribe to: those that every uplink has to know, and what the server wants."""
        subjects, own = self.subjects, self.own
        wanted = {
            subjects.of("reg"),
            subjects.of("beat"),
            subjects.of("ask", self.server),
            subjects.of("to", self.server),
        }
        if own.events or own.has_content:
            wanted.add(subjects.of("obj"))
        if own.has_content:
            wanted.add(subjects.all_publications())
        else:
            wanted.update(subjects.wanted(own.services))
        return wanted - self.kept

    # From the engine.

    def came(self, subject: str, data: bytes, now: float) -> None:
        """A message came on a subject, at a time in seconds. What is wrong with it is counted."""
        try:
            kind, server = self.subjects.parts(subject)
            if kind in ("reg", "beat") and not self._is_other(server):
                self._same_server(kind, data)
            elif kind == "reg":
                self.entered(server, read_entry(data), now)
            elif kind == "beat":
                self.beaten(server, read_beat(data), now)
            elif kind == "ask":
                self.is_asked = True
            elif subject not in self.kept:
                self.frame(subject, data)
        except RemoteProtocolError as error:
            self.counters[error.reason] += 1

    def _is_other(self, server: str) -> bool:
        """Whether this is another server, whose messages are taken.

        :raises RemoteProtocolError: ``bad-entry``: no server has that routing id.
        """
        if server == self.node or not is_routing_id(server):
            raise RemoteProtocolError("bad-entry", "no server has that routing id")
        return server != self.server

    def _same_server(self, kind: str, data: bytes) -> None:
        """A message of this server itself came: it comes back, or another server has the same routing id."""
        if kind == "beat":
            beat = read_beat(data)
            self.counters["same-server"] += beat.boot != self.boot and not beat.left

    def frame(self, subject: str, data: bytes) -> None:
        """A frame came. :raises RemoteProtocolError: it is none."""
        frame, service = unpack(data), self._service(subject)
        if frame.origin == self.server:
            return  # It comes back from where the engine keeps it.
        if not is_routing_id(frame.origin) or (service is not None and not is_wanted_name(service)):
            raise RemoteProtocolError("bad-frame", "no server, or no service, has that name")
        taken = self.arrivals.take(subject, frame)
        self._lost(subject, frame.origin, taken.lost)
        if taken.body:
            objs, others = self._objects_in.read(taken.body)
            self.counters["received"] += len(objs)
            self.counters["bad-object"] += others
            self._note_all(objs, frame.origin)
            peer = self.peers.get(frame.origin)
            if subject in self.kept or peer is None or not peer.is_known:
                self._lend(objs, service)
            self.tell()
            self.to_server += [encode(each.metadata, each.payload) for each in objs] if others else [taken.body]

    def _lend(self, objs: list[BusObject], service: str | None) -> None:
        """Tell of the senders of publications that their server has not told of."""
        if service is None:
            return
        for raw in {bytes(obj.head.route) for obj in objs}:
            route = _route(raw)
            if len(route) > 1:
                self.directory.lend(route[0], tuple(route[1:]), service)

    def _note_all(self, objs: list[BusObject], origin: str) -> None:
        for obj in objs:
            if obj.head.event is not None:
                self._note(obj, origin)

    def _note(self, obj: BusObject, origin: str) -> None:
        """Remember who asked, and that a reply came."""
        name = obj.head.event.lower() if obj.head.event is not None else ""
        if name == REQUEST and isinstance(obj.head.id, (str, int)):
            self._requests.came_in(obj.head.id, origin)
        elif name in REPLYING:
            to = obj.head.to
            self._requests.answered(obj.fields().get("in-reply-to"), [to] if isinstance(to, str) else to)

    def _lost(self, subject: str, origin: str, lost: int) -> None:
        """Objects of an origin did not come: tell the server."""
        if not lost:
            return
        self.counters["lost"] += lost
        if "gap" in self._understood:
            service = self.subjects.service(subject)
            about: dict[str, Any] = {} if service is None else {"service": service}
            # What is kept is lost by its bounds of age and size.
            reason = "objects-expired" if subject in self.kept else "objects-lost"
            self._tell({"event": GAP, "from": origin, **about, "lost": lost, "reason": reason, "route": [self.node]})

    def beaten(self, server: str, beat: Beat, now: float) -> None:
        """A heartbeat came."""
        peer = self.peers.get(server)
        if beat.left:
            if peer is not None and peer.boot == beat.boot:
                self.left(server)
            return
        if peer is None or peer.boot != beat.boot:
            self._miss(server, now)
            return
        if peer.number < beat.n or peer.snapshot is not None:
            self._miss(server, now)
        else:
            self.unknown.pop(server, None)
        peer.heard = now

    def _miss(self, server: str, now: float) -> None:
        """The directory of a server is not known, or not all of it."""
        if server in self.peers or len(self.unknown) < MOST_SERVERS:
            self.unknown[server] = now
        else:
            self.counters["over-limit"] += 1

    def entered(self, server: str, entry: Entry, now: float) -> None:
        """An entry of a directory came, as it was published, or read again."""
        peer = self.peers.get(server)
        if peer is None or (peer.boot != entry.boot and entry.reset):
            peer = self._met(server, entry, now)
        if peer is None or (peer.boot == entry.boot and entry.n <= peer.number):
            return
        if not peer.is_next(entry):
            self._miss(server, now)
            return
        peer.begins(entry)
        told = peer.snapshot
        if not self._fold(server, self.directory.others if told is None else told.sessions, entry.events):
            peer.boot = ""
            self._miss(server, now)
            return
        self._learn(server, told, entry.events)
        if told is not None and entry.whole:
            peer.snapshot, peer.is_known = None, True
            self.unknown.pop(server, None)
            self.directory.replaced(server, told.sessions)
            self.counters["over-limit"] += not self._wanted.set(server, told.wanted)

    def _met(self, server: str, entry: Entry, now: float) -> Peer | None:
        """A peer that is new, or has begun again; ``None``: its directory is not known from the beginning."""
        if not entry.reset:
            self._miss(server, now)
            return None
        if server not in self.peers and len(self.peers) >= MOST_SERVERS:
            self.counters["over-limit"] += 1
            return None
        peer = self.peers[server] = Peer(entry.boot, entry.n - 1, now)
        self.directory.joined(server)
        return peer

    def _fold(self, server: str, paths: Paths, events: list[dict[str, Any]]) -> bool:
        """Take advertisements of another server. Those that are none, or too much, are counted.

        :param paths: what this server has told: the directory, or a snapshot that is not whole yet.
        :returns: whether they were not too many changes for one entry.
        """
        copied = 0
        directory = self.directory
        most = most_of(server, paths, [directory.others, *(each.sessions for each in self._unfinished())])
        advertise = directory.advertised if paths is directory.others else partial(_fold_apart, paths, self.server)
        for fields in merged(each for each in events if each.get("event") in ADVERTISEMENTS):
            copied += cost(paths, server, fields)
            if copied > MOST_COPIED:
                self.counters["over-limit"] += 1
                return False
            if fields["event"] in ADDING and paths.size(server) >= most:
                self.counters["over-limit"] += 1
                continue
            try:
                advertise(server, fields)
            except Refused:
                self.counters["bad-entry"] += 1
        return True

    def _unfinished(self) -> list[Told]:
        """The snapshots that are not whole yet."""
        return [each.snapshot for each in self.peers.values() if each.snapshot is not None]

    def _learn(self, server: str, told: Told | None, events: list[dict[str, Any]]) -> None:
        """A server tells what it wants. If that is too much, it counts as one that wants everything.

        :param told: the snapshot that is not whole yet.
        """
        for fields in events:
            if fields.get("event") != INTEREST:
                continue
            if told is not None:
                told.wanted.learn(fields)
            elif not self._wanted.learn(server, fields):
                self.counters["over-limit"] += 1
        if told is not None and sum(len(each.wanted.services) for each in self._unfinished()) > MOST_NAMES_OF_NET:
            told.wanted.widen()
            self.counters["over-limit"] += 1

    def left(self, server: str) -> None:
        """A peer is gone."""
        if self.peers.pop(server, None) is None:
            return
        self.unknown.pop(server, None)
        self.directory.left(server)
        self._wanted.set(server, None)
        for asked in self._requests.lost(server):
            about = {"in-reply-to": asked.id, "to": asked.asker, "route": [self.node]}
            message = "the provider is gone, with the server that it belonged to"
            self._tell({"event": "error", **about, "reason": "provider-gone", "message": message})

    def lapsed(self, before: float) -> list[str]:
        """The peers that were last heard of before this time are gone. :returns: these."""
        gone = [server for server, peer in self.peers.items() if peer.heard < before]
        for server in gone:
            self.left(server)
        for server in [each for each, heard in self.unknown.items() if heard < before]:
            del self.unknown[server]
        return gone

    def ping(self, ping_id: str) -> None:
        """Ask the server for a sign that it has taken everything before."""
        self._tell({"event": "ping", "id": ping_id, "to": self.server, "route": [self.node]})

    # To the server.

    def tell(self) -> bool:
        """Tell the server what changed on the net. :returns: whether there is more to tell."""
        for fields in self.directory.news(MOST_TOLD):
            self._tell(fields)
        if "interest" in self._understood:
            for fields in self._wanted.news([self.node]):
                self._tell(fields)
        return self.directory.has_news

    def _tell(self, fields: dict[str, Any]) -> None:
        data = encode(fields)
        if len(data) > self._limits.metadata:
            # It would end the link.
            self.counters["over-limit"] += 1
        else:
            self.to_server.append(data)


def _fold_apart(paths: Paths, avoid: str, server: str, fields: dict[str, Any]) -> None:
    """Take an advertisement of a snapshot that is not whole yet."""
    fold(paths, server, fields, avoid)


def _route(raw: bytes) -> list[str]:
    """A route; empty if it is none."""
    try:
        return _decode_route(raw) if raw else []
    except msgspec.MsgspecError:
        return []
