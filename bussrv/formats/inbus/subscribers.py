"""Inbus: subscribers, their leases, and the ghosts among them.

- A *subscriber* is an address, host and port. It is *stated* in the datagram that subscribes. It is *foreign* if the
  datagram came from another host.
- A *subscription* is a subscriber with an app-key. The app-key is the name of a service.
- A *lease* is the time after which a subscription ends. Subscribing again renews it.
- A *ghost* is a subscriber that is gone and did not unsubscribe. Its lease runs out, or is cut to a short rest if its
  machine reports that the port is closed (ICMP port unreachable).

Not every renewal is worth a record: :class:`Renewals` decides which ones reach the journal.

Times are in seconds of the reactor's clock, unless a docstring says UTC microseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import nsmallest
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred

from bussrv import events as ev
from bussrv.addresses import format_address, parse_address, plain_ip
from bussrv.formats.inbus.drops import FORMAT, Drops
from bussrv.formats.inbus.outlet import InbusLink, Outlet
from bussrv.formats.inbus.users import InbusUsers
from bussrv.journal.pseudonyms import is_pseudonym
from bussrv.plugin import IBus, Refused, Traffic, check_service_name, quoted
from bussrv.wire import inbus as wire

RENEWALS_PER_LEASE = 4
"""The most renewals during one lease that reach the journal."""

UNREACHABLE_GRACE = 30.0
"""The most seconds that are left of a lease after the port was reported closed, and between two checks of leases."""

LEASE_FOR_EVER = 3600.0
"""Seconds that stand for the lease in the rate of renewals if leases never end."""


class LedgerEntry(Struct, frozen=True, kw_only=True):
    """The state of one subscriber, for the ``ledger`` of ``bus/statistics``.

    :ivar address: the stated address, ``host:port``.
    :ivar session: the id of its session.
    :ivar app_keys: its app-keys, sorted.
    :ivar last_heard: when it last subscribed or renewed, UTC microseconds.
    :ivar send_errors: how many datagrams the system did not send, or reported as lost.
    :ivar unreachables: how often its port was reported closed.
    :ivar over_rate: how many datagrams were dropped because of a limit on datagrams a second.
    :ivar lease_left: seconds until its last subscription ends; ``None``: never.
    """

    address: str
    session: str
    app_keys: tuple[str, ...]
    last_heard: int
    send_errors: int
    unreachables: int
    over_rate: int
    lease_left: float | None


class Renewals:
    """Decides which renewals of one subscription reach the journal.

    :ivar version: the version of Inbus in the last request that was passed to the registry.
    :ivar last: the time of that request.
    """

    def __init__(self, version: int, last: float) -> None:
        self.version = version
        self.last = last
        self._renewals: deque[float] = deque(maxlen=RENEWALS_PER_LEASE)

    def is_due(self, version: int, now: float, lease: float) -> bool:
        """Whether a renewal is to reach the journal.

        It is if the version has changed, or if a fourth of the lease is over since the last one. But no more than
        :data:`RENEWALS_PER_LEASE` reach the journal during one lease, even if the version changes each time.

        :param lease: the length of a lease; 0: leases never end.
        """
        if len(self._renewals) == RENEWALS_PER_LEASE and now - self._renewals[0] < (lease or LEASE_FOR_EVER):
            return False
        return version != self.version or (lease > 0 and now - self.last >= lease / RENEWALS_PER_LEASE)

    def renew(self, version: int, now: float) -> None:
        """A renewal reaches the journal."""
        self.version = version
        self.last = now
        self._renewals.append(now)


class StatedAddress:
    """A stated address.

    :ivar source: the host that sent the first datagram; after a restart of the server, its own host.
    :ivar heard: when it last subscribed to each app-key, for subscriptions that are in the registry.
    :ivar renewals: for each app-key that it subscribed to, also if that is still on its way to the journal.
    :ivar pending: how many changes are on their way to the journal.
    :ivar last_heard: when it last subscribed to any app-key, UTC microseconds.
    :ivar unreachables: how often its port was reported closed.
    :ivar unreachable_since: when its port was first reported closed after it last subscribed; ``None``: it was not.
    """

    def __init__(self, session_id: str, link: InbusLink, source: str) -> None:
        self.session_id = link.session_id = session_id
        self.source = source
        self.link = link
        self.heard: dict[str, float] = {}
        self.renewals: dict[str, Renewals] = {}
        self.pending = 0
        self.last_heard = 0
        self.unreachables = 0
        self.unreachable_since: float | None = None

    def lease_end(self, app_key: str, lease: float) -> tuple[float, str]:
        """When a subscription ends unless it is renewed, and the reason.

        :param lease: the length of a lease.
        """
        end = self.heard[app_key] + lease
        if self.unreachable_since is not None and self.unreachable_since + UNREACHABLE_GRACE < end:
            return self.unreachable_since + UNREACHABLE_GRACE, "inbus-unreachable"
        return end, "lease-expired"


class Subscribers:
    """Every subscriber of one port, by stated address.

    :param outlet: sends datagrams.
    :param drops: counts, logs and journals datagrams that are dropped.
    """

    def __init__(self, bus: IBus, reactor: Any, outlet: Outlet, drops: Drops) -> None:
        self._bus = bus
        self._users = InbusUsers(bus)
        self._reactor = reactor
        self._outlet = outlet
        self._drops = drops
        self._lease = bus.settings.inbus_lease
        self._by_address: dict[tuple[str, int], StatedAddress] = {}

    def session_of(self, address: tuple[str, int], app_key: str) -> str | None:
        """The session of an address that is subscribed to an app-key."""
        subscriber = self._by_address.get(address)
        return subscriber.session_id if subscriber is not None and app_key in subscriber.heard else None

    def resume(self) -> None:
        """At the start of the server, resume the subscribers that the journal knows, with the rest of their leases."""
        for session in tuple(self._bus.registry.state.sessions.values()):
            if session.protocol != FORMAT or not session.persistent:
                continue
            if is_pseudonym(session.peer):
                # The journal has a pseudonym whose key was removed on purpose, so the address is not known any more.
                self._bus.close(session.id, "address-forgotten", Traffic())
            else:
                self._resume(session.id, parse_address(session.peer))

    def _resume(self, session_id: str, address: tuple[str, int]) -> None:
        # The journal does not say which host stated the address. If another host may have, it counts as foreign.
        allowed = any(plain_ip(address[0]) in network for network in self._bus.settings.inbus_allow)
        subscriber = StatedAddress(session_id, InbusLink(self._outlet, address, is_foreign=allowed), address[0])
        now, utc = self._reactor.seconds(), self._bus.utc()
        for subscription in self._bus.registry.state.subscriptions.get(session_id, {}).values():
            heard = now - max(0, utc - subscription.renewed) / 1_000_000
            subscriber.heard[str(subscription.service)] = heard
            version = (subscription.options or {}).get("version", 1)
            subscriber.renewals[str(subscription.service)] = Renewals(version, heard)
            subscriber.last_heard = max(subscriber.last_heard, subscription.renewed)
        self._by_address[address] = subscriber
        self._bus.resume(session_id, subscriber.link)
        self._judge(address, subscriber)

    # Requests of subscribers.

    def receive(self, message: wire.Datagram, host: str, size: int) -> None:
        """Serve a datagram that subscribes or unsubscribes.

        :param host: the host that sent it.
        :param size: its bytes.
        :raises Refused: why it is dropped.
        """
        address, is_foreign = self._stated_address(message, host)
        known = self._by_address.get(address)
        if known is not None:
            self._users.check_owner(known.session_id, host)
        if message.opcode == wire.SUBSCRIBE:
            if known is None or message.app_key not in known.heard:
                self._drops.check_name(check_service_name, ev.SubscriptionRefused, message, host)
            subscriber = self._find_or_open(address, message.app_key, host, is_foreign)
            self._subscribe(subscriber, message, address, size)
        else:
            self._unsubscribe(message, address, size)

    def _stated_address(self, message: wire.Datagram, host: str) -> tuple[tuple[str, int], bool]:
        """The stated address, and whether it is foreign.

        :raises Refused: the sender may not state it.
        """
        try:
            stated, source = plain_ip(message.host), plain_ip(host.partition("%")[0])
        except ValueError as error:
            raise Refused("bad-element", f"address: {quoted(message.host)} is no IP address") from error
        if message.port == 0 or stated.is_unspecified:
            raise Refused("bad-element", f"address: {format_address(str(stated), message.port)} receives nothing")
        if stated != source and not any(stated in network for network in self._bus.settings.inbus_allow):
            self._drops.note_refusal(ev.SubscriptionRefused, message, host, "foreign-address")
            raise Refused("foreign-address", f"{stated} is not the sender's address and not allowed")
        if self._outlet.is_own(stated, message.port):
            self._drops.note_refusal(ev.SubscriptionRefused, message, host, "own-address")
            raise Refused("own-address", f"{format_address(str(stated), message.port)} is this server itself")
        return (str(stated), message.port), stated != source

    def _find_or_open(self, address: tuple[str, int], app_key: str, source: str, is_foreign: bool) -> StatedAddress:
        """The subscriber with an address; if there is none, its session is opened.

        :raises Refused: ``journal-budget``, or a limit of sessions; ``not-authenticated`` or ``not-allowed``.
        """
        subscriber = self._by_address.get(address)
        if subscriber is None or app_key not in subscriber.renewals:
            proof = self._users.admit(source, format_address(*address), "watch", app_key)
            self._bus.registry.spending.require_budget(
                subscriber.session_id if subscriber is not None else None, format_address(*address)
            )
        if subscriber is None:
            subscriber = self._open(address, source, is_foreign)
            self._users.opened(self._bus.registry.state.sessions[subscriber.session_id], proof)
        subscriber.link.target.is_foreign &= is_foreign
        return subscriber

    def _subscribe(
        self, subscriber: StatedAddress, message: wire.Datagram, address: tuple[str, int], size: int
    ) -> None:
        _count(subscriber.link, size)
        now = self._reactor.seconds()
        subscriber.last_heard = self._bus.utc()
        subscriber.unreachable_since = None
        if message.app_key in subscriber.heard:
            subscriber.heard[message.app_key] = now
        renewals = subscriber.renewals.get(message.app_key)
        if renewals is None:
            subscriber.renewals[message.app_key] = Renewals(message.version, now)
        elif renewals.is_due(message.version, now, self._lease):
            renewals.renew(message.version, now)
        else:
            return
        subscriber.pending += 1
        changed = self._bus.registry.subscribe(subscriber.session_id, message.app_key, {"version": message.version})
        changed.addCallback(self._subscribed, subscriber, message.app_key, now)
        self._settle(changed, address, subscriber, message.app_key)

    def _open(self, address: tuple[str, int], source: str, is_foreign: bool) -> StatedAddress:
        self._bus.admit(FORMAT, format_address(*address))
        link = InbusLink(self._outlet, address, is_foreign=is_foreign)
        session = self._bus.open(FORMAT, format_address(*address), link, persistent=True)
        subscriber = self._by_address[address] = StatedAddress(session.id, link, source)
        return subscriber

    def _subscribed(self, _: None, subscriber: StatedAddress, app_key: str, now: float) -> None:
        if self._bus.registry.state.subscription(subscriber.session_id, app_key) is None:
            # Withdrawn as soon as it was made.
            subscriber.renewals.pop(app_key, None)
            return
        subscriber.heard[app_key] = max(now, subscriber.heard.get(app_key, now))

    def _unsubscribe(self, message: wire.Datagram, address: tuple[str, int], size: int) -> None:
        subscriber = self._by_address.get(address)
        if subscriber is None:
            raise Refused("no-such-subscription", f"{format_address(*address)} has no subscription")
        _count(subscriber.link, size)
        subscriber.renewals.pop(message.app_key, None)
        subscriber.pending += 1
        changed = self._bus.registry.unsubscribe(subscriber.session_id, message.app_key)
        changed.addCallback(self._unsubscribed, subscriber, message.app_key)
        self._settle(changed, address, subscriber, message.app_key)

    def _unsubscribed(self, _: None, subscriber: StatedAddress, app_key: str) -> None:
        subscriber.heard.pop(app_key, None)

    def taken_away(self, peer: str, app_key: str, reason: str) -> None:
        """The subscription of the session at an address was taken away."""
        address = parse_address(peer)
        subscriber = self._by_address.get(address)
        if subscriber is not None:
            subscriber.renewals.pop(app_key, None)
            self._unsubscribed(None, subscriber, app_key)
            self._close_if_idle(address, subscriber, reason)

    def _settle(
        self, changed: Deferred[None], address: tuple[str, int], subscriber: StatedAddress, app_key: str
    ) -> None:
        """When a change is made or refused, close the subscriber if it has no subscription left."""
        settling = Deferred.fromCoroutine(self._settled(changed, address, subscriber, app_key))
        settling.addErrback(lambda failure: self._drops.failed(address[0], failure))

    async def _settled(
        self, changed: Deferred[None], address: tuple[str, int], subscriber: StatedAddress, app_key: str
    ) -> None:
        try:
            await changed
        except Refused as refusal:
            subscriber.renewals.pop(app_key, None)
            self._drops.drop(refusal.reason, refusal.message, address[0])
        finally:
            subscriber.pending -= 1
        self._close_if_idle(address, subscriber, "unsubscribed")

    def _close_if_idle(self, address: tuple[str, int], subscriber: StatedAddress, reason: str) -> None:
        held = self._bus.registry.state.subscriptions.get(subscriber.session_id)
        if not held and not subscriber.pending and self._by_address.get(address) is subscriber:
            self._close(address, subscriber, reason)

    def _close(self, address: tuple[str, int], subscriber: StatedAddress, reason: str) -> None:
        del self._by_address[address]
        self._bus.close(subscriber.session_id, reason, subscriber.link.traffic)

    # Users.

    def judge(self) -> Iterator[None]:
        """Close every subscriber that is another user now, or may do nothing any more; one subscriber at a step."""
        for address, subscriber in tuple(self._by_address.items()):
            self._judge(address, subscriber)
            yield

    def _judge(self, address: tuple[str, int], subscriber: StatedAddress) -> None:
        reason = self._users.judge(subscriber.session_id, subscriber.source)
        if reason is not None and self._by_address.get(address) is subscriber:
            self._close(address, subscriber, reason)

    # Ghosts.

    def not_reached(self, address: tuple[str, int], nobody_listens: bool) -> None:
        """The network reports that a datagram did not arrive; see :class:`bussrv.net.transport.icmp.ErrorQueue`.

        :param nobody_listens: whether the machine reports that the port is closed.
        """
        self._bus.counters["inbus-unreachable" if nobody_listens else "inbus-send-failed"] += 1
        subscriber = self._by_address.get((str(plain_ip(address[0].partition("%")[0])), address[1]))
        if subscriber is None:
            return
        if not nobody_listens:
            subscriber.link.send_errors += 1
            return
        subscriber.unreachables += 1
        if subscriber.unreachable_since is None:
            subscriber.unreachable_since = self._reactor.seconds()

    def sweep(self) -> Iterator[None]:
        """End every subscription whose lease is over. Each item of the iterator is one subscriber that was checked."""
        for address, subscriber in tuple(self._by_address.items()):
            reason, now = "lease-expired", self._reactor.seconds()
            for app_key in tuple(subscriber.heard):
                end, why = subscriber.lease_end(app_key, self._lease)
                if end < now:
                    reason = why
                    self._bus.registry.lose_subscription(subscriber.session_id, app_key, reason)
                    subscriber.renewals.pop(app_key, None)
                    self._unsubscribed(None, subscriber, app_key)
            self._close_if_idle(address, subscriber, reason)
            yield

    def __len__(self) -> int:
        return len(self._by_address)

    def ledger(self, most: int) -> list[LedgerEntry]:
        """The ``most`` subscribers with the least of their leases left, in that order."""
        chosen = nsmallest(most, self._by_address.items(), key=self._last_end)
        return [self._entry(address, subscriber) for address, subscriber in chosen]

    def _last_end(self, item: tuple[tuple[str, int], StatedAddress]) -> tuple[float, str]:
        """When the last subscription of a subscriber ends, unless it is renewed."""
        address, subscriber = item
        ends = [subscriber.lease_end(app_key, self._lease)[0] for app_key in subscriber.heard] if self._lease else []
        return max(ends, default=0.0), format_address(*address)

    def _entry(self, address: tuple[str, int], subscriber: StatedAddress) -> LedgerEntry:
        ends = [subscriber.lease_end(app_key, self._lease)[0] for app_key in subscriber.heard]
        left = max(0.0, max(ends) - self._reactor.seconds()) if ends else 0.0
        return LedgerEntry(
            address=format_address(*address),
            session=subscriber.session_id,
            app_keys=tuple(sorted(subscriber.heard)),
            last_heard=subscriber.last_heard,
            send_errors=subscriber.link.send_errors,
            unreachables=subscriber.unreachables,
            over_rate=subscriber.link.over_rate,
            lease_left=left if self._lease else None,
        )


def _count(link: InbusLink, size: int) -> None:
    link.traffic.objects_in += 1
    link.traffic.bytes_in += size
