"""Inbus: small devices, connectionless. Source: seed 001, and version 2 as deployed; datagrams are in
:mod:`bussrv.wire.inbus`.

A *subscriber* is a stated address; it lives for its lease, renewed by subscribing again, and outlives a restart of
the server. A *publisher* is a source IP address, because deployed publishes come from a new port each time; what it
publishes on becomes a service, for as long as it keeps publishing there.

Nothing is ever answered: an answer to a forged source would be an attack. Bad datagrams are dropped, counted and
logged. For the same reason the stated address has to be the sender's own, unless ``--inbus-allow`` says otherwise, and
no address and no host is sent more datagrams a second than :class:`bussrv.formats.inbus.outlet.Rates` says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import DatagramProtocol
from twisted.internet.task import LoopingCall
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv import events as ev
from bussrv.addresses import plain_host
from bussrv.bus.flush_schedule import NEVER
from bussrv.bus.sessions.withdrawal import TAKEN_AWAY
from bussrv.formats.inbus.drops import FORMAT, Drops
from bussrv.formats.inbus.intake import Intake
from bussrv.formats.inbus.outlet import Outlet
from bussrv.formats.inbus.publishers import Echoes, Publishers
from bussrv.formats.inbus.subscribers import UNREACHABLE_GRACE, LedgerEntry, Subscribers
from bussrv.net.transport.udp_batches import MOST_SEGMENTS
from bussrv.plugin import (
    DatagramListener,
    EndOfReactorTurn,
    IBus,
    IRegistryObserver,
    Refused,
    RemoteProtocolError,
    Stamped,
    by_steps,
    format_time,
)
from bussrv.wire import inbus as wire

LEDGER_SHOWN = 100
"""How many subscribers ``bus/statistics`` shows: those with the least of their leases left."""


def _shown(entry: LedgerEntry) -> dict[str, Any]:
    lease = {} if entry.lease_left is None else {"lease_left": math.ceil(entry.lease_left / 60) * 60}
    return {
        "app_keys": list(entry.app_keys),
        "last_heard": format_time(entry.last_heard),
        "send_errors": entry.send_errors,
        "unreachables": entry.unreachables,
        "over_rate": entry.over_rate,
        **lease,
    }


@implementer(IRegistryObserver)
class InbusServer(DatagramProtocol):
    """The Inbus port: every subscriber and every publisher.

    :ivar in_turns: whether frames that several datagrams bring in one reactor turn are sent together. True on a port.
    """

    transport: Any
    in_turns = False

    def __init__(self, bus: IBus, reactor: Any) -> None:
        self._bus = bus
        self._reactor = reactor
        self._lease = bus.settings.inbus_lease
        self._drops = Drops(bus, reactor.seconds)
        self._outlet = Outlet(bus, reactor, self._drops)
        self._intake = Intake(bus, reactor, self._drops)
        self._subscribers = Subscribers(bus, reactor, self._outlet, self._drops)
        self._publishers = Publishers(bus, reactor, self._outlet, self._drops)
        self._echoes = Echoes(bus, self._subscribers, reactor.seconds)
        bus.report("inbus", self._report)
        bus.registry.observe(self, (ev.SubscriptionRemoved, ev.ServiceUnregistered))
        bus.identity.changed.append(self._judge)
        self._collected = 0
        self._read_at = NEVER  # of the first datagram that is collected, in seconds of the reactor
        self._turn = EndOfReactorTurn(self._end_turn, reactor)
        self._sweeping = LoopingCall(self._sweep)
        self._sweeping.clock = reactor

    def startProtocol(self) -> None:
        """Take up the subscribers that the journal knows, save those of which the lease has run out; from now on, look
        for more of these.
        """
        self._outlet.open(self.transport)
        self._subscribers.resume()
        if self._lease:
            self._sweeping.start(min(UNREACHABLE_GRACE, max(1.0, self._lease / 8)))

    def listening(self) -> None:
        """The port is read from: learn from now on which subscribers cannot be reached."""
        self.in_turns = True
        self._intake.open(self.transport)
        self._outlet.watch(self._subscribers.not_reached)

    def stop(self) -> Deferred[Any]:
        """Close the publishers; the subscribers outlive a restart. :returns: fires when that is done."""
        if self._sweeping.running:
            self._sweeping.stop()
        self._turn.hurry()
        self._outlet.unwatch()
        return self._publishers.stop()

    def stopProtocol(self) -> None:
        """The port is closed."""
        self._intake.close()
        self._outlet.close()

    def _report(self) -> dict[str, Any]:
        """The ghosts' ledger for ``bus/statistics``: as much of it as a message can carry, leases in whole minutes."""
        self._intake.look()
        ledger = self.ledger(LEDGER_SHOWN)
        return {"subscribers": len(self._subscribers), "ledger": {each.address: _shown(each) for each in ledger}}

    def ledger(self, most: int) -> list[LedgerEntry]:
        """The ``most`` subscribers with the least of their leases left, in that order."""
        return self._subscribers.ledger(most)

    def datagramReceived(self, datagram: bytes, addr: Any) -> None:
        """A datagram came: do what it says, or drop it."""
        if self._read_at is NEVER:
            self._read_at = self._reactor.seconds()
        host = plain_host(addr[0])
        try:
            message = wire.decode(datagram)
            if message.opcode == wire.PUBLISH:
                self._echoes.check(message, (host, addr[1]))
                self._publishers.receive(message, host, len(datagram))
            else:
                self._subscribers.receive(message, host, len(datagram))
        except (RemoteProtocolError, Refused) as error:
            self._drops.drop(error.reason, error.message, host)
        except Exception:
            self._drops.failed(host, Failure())
        finally:
            self._read()

    def registry_changed(self, stamped: Stamped) -> None:
        """Forget what was taken away; see :class:`IRegistryObserver`."""
        event, reason = stamped.event, stamped.event.reason
        if reason not in TAKEN_AWAY or event.protocol != FORMAT or event.peer is None or event.service is None:
            return
        if isinstance(event, ev.SubscriptionRemoved):
            self._subscribers.taken_away(event.peer, event.service, reason)
        elif isinstance(event, ev.ServiceUnregistered):
            self._publishers.taken_away(event.peer, event.service, reason)

    def _judge(self) -> None:
        """Close sessions that are another user now, or may do nothing any more."""
        judged = chain(self._subscribers.judge(), self._publishers.judge())
        self._bus.slices.do(by_steps(judged, self._reactor.seconds))

    def _read(self) -> None:
        """A datagram was read, and what came of it was collected: send it now, or together with what comes next."""
        self._collected += 1
        if not self.in_turns:
            self._flush()
            return
        self._turn.wait()
        if self._collected >= MOST_SEGMENTS:
            self._flush()
        self._intake.read()

    def _end_turn(self) -> None:
        self._flush()
        self._intake.turn_ended()

    def _flush(self) -> None:
        self._collected = 0
        since, self._read_at = self._read_at, NEVER
        if not self._bus.flush(since):
            self._intake.wait(self._bus.caught_up())

    def _sweep(self) -> None:
        """End every subscription and service that was not renewed within the lease."""
        self._bus.slices.do(by_steps(self._sweep_each(), self._reactor.seconds))

    def _sweep_each(self) -> Iterator[None]:
        oldest = self._reactor.seconds() - self._lease
        for _ in chain(self._subscribers.sweep(), self._publishers.sweep(oldest)):
            yield
            if not self._sweeping.running:
                return


def listen(bus: IBus, endpoint: str, reactor: Any) -> DatagramListener:
    """Serve Inbus; see :meth:`bussrv.interfaces.IWireFormat.listen`."""
    return DatagramListener(InbusServer(bus, reactor), endpoint, reactor)
