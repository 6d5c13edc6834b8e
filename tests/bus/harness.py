"""A bus with a journal in memory, and links that remember what they were given."""

import itertools

from twisted.internet import task
from zope.interface import implementer

from bussrv.bus.bus import Bus
from bussrv.bus.interest.interests import mode_interest, rule_interest
from bussrv.bus.interfaces import ISessionLink
from bussrv.bus.routing.object_ids import ObjectIds
from bussrv.bus.sessions.membership import MembershipAnnouncer
from bussrv.formats.inbus.drops import Drops
from bussrv.formats.inbus.outlet import InbusPublish
from bussrv.formats.objects.members import OBJECT_FRAMES
from bussrv.formats.spp.protocol import SppInfo
from bussrv.registry.changes.registry import Registry
from bussrv.registry.state.session import Claims
from bussrv.settings import Settings
from bussrv.testing.journal import SteeredJournal
from bussrv.values import Publication, Traffic
from bussrv.wire.objects import ObjectReader, encode, encode_json

SERVER = "hall"
LIMITS = Settings()
TEXT = {"type": "text/plain"}
NO_ECHO = {"receive": "no_echo"}


class Clock:
    def __init__(self):
        self.now = 1_800_000_000_000_000

    def utc(self):
        return self.now

    def mono(self):
        return self.now

    def advance(self, seconds):
        self.now += int(seconds * 1_000_000)


@implementer(ISessionLink)
class RecordingLink:
    """:ivar got: every frame, in order."""

    waiting = 0

    def __init__(self, encodings):
        self.traffic = Traffic()
        self.got = []
        self.batches = []
        self._encodings = encodings

    def encoding_for(self, options):
        return self._encodings[(options or {}).get("version")]

    def send(self, batch):
        assert batch.joined == b"".join(batch.frames)
        assert (batch.count, batch.size) == (len(batch.frames), len(batch.joined))
        assert batch.count > 0
        self.batches.append(batch)
        self.got += batch.frames

    def close(self, reason):
        raise AssertionError


class GivenIds(ObjectIds):
    """Ids that a test makes."""

    def __init__(self, new_id):
        super().__init__()
        self._new_id = new_id

    def __call__(self):
        return self._new_id()


class BusHarness:
    """:ivar fresh: the next id of an object; while it is set, every object gets that one."""

    def __init__(self, announce="off", **settings):
        self.clock = Clock()
        self.reactor = task.Clock()
        self.journal = SteeredJournal()
        self.routing_ids = itertools.count(1)
        self.object_ids = itertools.count(1)
        self.fresh = None
        self.registry = Registry(
            self.journal, self.clock, lambda: f"r{next(self.routing_ids)}", server_id=SERVER, boot="b"
        )
        limits, new_id = Settings(announce=announce, **settings), self.new_id
        ids = GivenIds(new_id)
        self.bus = Bus(self.registry, limits, SERVER, new_id, self.clock, self.reactor, ids=ids)
        self.registry.observe(MembershipAnnouncer(self.bus), MembershipAnnouncer.KINDS)
        counters = self.bus.counters
        drops = Drops(self.bus, self.reactor.seconds)
        inbus = {version: InbusPublish(version, self.bus, drops) for version in (1, 2)}
        self.encodings = {
            "objects": {None: OBJECT_FRAMES},
            "spp": {None: SppInfo(Settings(), lambda service: False, counters, self.reactor.seconds)},
            "inbus": {None: inbus[1], **inbus},
        }

    def new_id(self):
        return self.fresh or f"o{next(self.object_ids)}"

    def open(self, kind="objects"):
        """:returns: the session, as a small handle."""
        link = RecordingLink(self.encodings[kind])
        return Handle(self, self.bus.open(kind, "10.0.0.1:1", link).id, link)


class Handle:
    """One session, and what it was given."""

    def __init__(self, harness, session_id, link):
        self.id = session_id
        self.link = link
        self._bus = harness.bus
        self._reactor = harness.reactor
        self._registry = harness.registry

    @property
    def got(self):
        """With what goes at the end of the turn."""
        self._reactor.advance(0)
        return self.link.got

    @property
    def routing_id(self):
        return self._registry.state.sessions[self.id].routing_id

    def join(self, subscription=None, vocabulary=None, **claims):
        """Become a member, with the attributes of a subscription."""
        subscription = subscription or {}
        if "subscriptions" in subscription:
            interest = rule_interest(subscription["subscriptions"], LIMITS)
        else:
            interest = mode_interest(subscription.get("receive"), subscription.get("types"), LIMITS)
        spoken = vocabulary or ("rules" if "subscriptions" in subscription else "objects")
        claimed, services = Claims(session_id=self.id, vocabulary=spoken, **claims), subscription.get("services", ())

        def registers(session):
            self._bus.register_all(self.id, registers_all="services" in subscription)
            return session

        return self._registry.identify(claimed, interest, services=services).addCallback(registers)

    def subscribe(self, service, version=None):
        return self._registry.subscribe(self.id, service, None if version is None else {"version": version})

    def unsubscribe(self, service):
        return self._registry.unsubscribe(self.id, service)

    def register(self, service):
        return self._registry.register_service(self.id, service)

    def unregister(self, service):
        return self._registry.unregister_service(self.id, service)

    def send(self, fields, payload=b""):
        """Route an object. :returns: how many others were given it."""
        if payload:
            fields = {**fields, "size": len(payload)}
        reader = ObjectReader()
        reader.feed(encode(encode_json(fields), payload))
        return self._bus.route(self.id, reader.next_event())

    def publish(self, service, payload=b"", content_type="text/plain", app_type=1):
        self._bus.publish(self.id, Publication(service, content_type, payload, app_type))

    def close(self):
        self._bus.close(self.id, "client-closed", Traffic())


def member(harness, subscription=None, **identity):
    """A member of the object network."""
    handle = harness.open()
    handle.join(subscription, **identity)
    return handle


def parsed(fields, payload=b""):
    """An object as a reader gives it."""
    reader = ObjectReader()
    reader.feed(encode(fields, payload))
    return reader.next_event()
