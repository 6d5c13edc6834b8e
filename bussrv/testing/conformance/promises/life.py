"""Promises about sessions: each begins once and ends once, and leaves nothing."""

from __future__ import annotations

import gc
import weakref
from collections import Counter

from bussrv import events as ev
from bussrv.testing.conformance.adapter import shapes_of
from bussrv.testing.conformance.lab import Lab, payloads
from bussrv.testing.conformance.trial import OWN, SERVICE, Promise, Trial, conversation, promise

DRAINED_WITHIN = 5.0
"""Seconds of a drain."""


class _Before:
    """What there is before a client comes: sessions and timers of others."""

    def __init__(self, trial: Trial, lab: Lab) -> None:
        self._trial, self._lab = trial, lab
        lab.wait(1)
        self._sessions = set(lab.state.sessions)
        self._calls = Counter(lab.calls())

    def check(self, when: str) -> None:
        """Nothing else is there now.

        :raises Broken: something is.
        """
        lab, require = self._lab, self._trial.require
        lab.wait(1)
        more = len(lab.state.sessions.keys() - self._sessions)
        require(not more, f"{more} sessions are left {when}")
        require(OWN not in lab.state.services, f"the service {OWN!r} is still registered {when}")
        left = Counter(lab.calls()) - self._calls
        require(not left, f"timers are left {when}: {', '.join(sorted(left))}")


def _everything(trial: Trial, lab: Lab) -> None:
    visitor = lab.visitor(trial.name)
    for message in conversation(visitor):
        visitor.tell(message)
    visitor.leave()


def _last_of_datagrams(trial: Trial, lab: Lab) -> None:
    """Without connections, sessions end with their leases."""
    lab.wait(trial.adapter.lapses_after, 30)


@promise()
def sessions_open_once_and_close_once(trial: Trial) -> None:
    """Each session is opened once and closed once, in the journal and in the registry."""
    lab = trial.lab()
    trial.provider(lab)
    before, begun = _Before(trial, lab), len(lab.journal.records)
    for _ in range(3):
        _everything(trial, lab)
    _last_of_datagrams(trial, lab)
    since = [record.event for record in lab.journal.records[begun:]]
    opened = [each.session for each in since if isinstance(each, ev.SessionOpened)]
    closed = Counter(each.session for each in since if isinstance(each, ev.SessionClosed))
    trial.require(len(opened) >= 1, "the journal has no opening of a session of the format")
    wrong = [each for each in opened if closed[each] != 1]
    trial.require(not wrong, f"{len(wrong)} of {len(opened)} sessions were not closed once when their clients left")
    before.check("after the clients have left")


@promise()
def nothing_is_left_of_a_client(trial: Trial) -> None:
    """When a client is gone, so are its session, its services, its timers and its connection's memory."""
    lab = trial.lab()
    trial.provider(lab)
    _everything(trial, lab)
    _last_of_datagrams(trial, lab)
    before = _Before(trial, lab)
    visitor = lab.visitor(trial.name)
    for message in conversation(visitor):
        visitor.tell(message)
    protocol = weakref.ref(visitor.protocol) if trial.adapter.can("stream") else None
    visitor.leave()
    _last_of_datagrams(trial, lab)
    before.check("after the client has left")
    if protocol is not None:
        visitor.wire.pipe.protocol = None
        del visitor
        if protocol() is not None:
            gc.collect()
        trial.require(protocol() is None, "the connection of a client that has gone is still held in memory")


@promise("stream")
def a_connection_may_break_at_any_time(trial: Trial) -> None:
    """A connection that breaks between two messages, or while a change is on its way to the disk, leaves nothing."""
    lab = trial.lab()
    trial.provider(lab)
    _everything(trial, lab)
    before = _Before(trial, lab)
    stages = len(list(conversation(trial.adapter)))
    for pending in (False, True):
        for stage in range(1, stages + 1):
            visitor = lab.visitor(trial.name)
            *first, last = list(conversation(visitor))[:stage]
            for message in first:
                visitor.tell(message)
            if pending:
                lab.hold()
            visitor.send(last)
            visitor.lose()
            if pending:
                lab.release()
            how = "while a change was on its way to the disk" if pending else "after it was served"
            before.check(f"of a connection that broke at its message {stage}, {how}")


@promise("stream")
def a_half_closed_client_is_served(trial: Trial) -> None:
    """A client that sends its last and still reads gets all its answers; then the connection is closed."""
    lab = trial.lab()
    trial.provider(lab).publish(SERVICE, b"open")
    whole, visitor = trial.client(lab), trial.client(lab)
    expected = whole.subscribe(SERVICE)
    lab.hold()
    visitor.give(visitor.client.subscribe(SERVICE))
    visitor.wire.end_input()
    lab.release()
    got = visitor.said()
    trial.require(
        got[: len(expected)] == expected,
        f"a client that closed its side after a subscription is told {got!r}, not {expected!r}",
    )
    lab.wait(1)
    trial.require(not visitor.is_open, "the connection of a client that closed its side and was served stays open")


@promise("stream")
def a_session_that_is_ended_is_over(trial: Trial) -> None:
    """When the server ends a session, its connection is closed and it is given nothing more."""
    lab = trial.lab()
    provider = trial.provider(lab)
    visitor = trial.client(lab)
    visitor.subscribe(SERVICE)
    session = visitor.protocol.session_id
    visitor.protocol.evict("closed-by-operator")
    visitor.said()
    lab.wait(lab.bus.settings.close_timeout + 1)
    trial.require(not visitor.is_open, "a session was ended by the server, and its connection is still open")
    trial.require(session not in lab.state.sessions, "a session was ended by the server, and is still in the registry")
    provider.publish(SERVICE, b"late")
    trial.require(not payloads(visitor.said(), SERVICE), "a session was ended, and is given a publication all the same")


@promise("stream")
def a_port_drains_in_time(trial: Trial) -> None:
    """A drained port takes no further clients, and its sessions end within the time."""
    lab = trial.lab()
    trial.provider(lab)
    visitors = [trial.client(lab) for _ in range(4)]
    for each in visitors:
        each.subscribe(SERVICE)
    in_time = lab.drain(trial.name, DRAINED_WITHIN)
    late = lab.visitor(trial.name)
    trial.require(not late.is_open, "a port that drains still takes connections")
    lab.wait(lab.bus.settings.close_timeout + 1)
    open_ = sum(each.is_open for each in visitors)
    trial.require(in_time and not open_, f"{open_} of 4 clients are still connected after a drain of 5 seconds")


@promise()
def a_stop_ends_everything(trial: Trial) -> None:
    """When the server stops, ports and connections close in time, and no timer of the format is left."""
    lab, at_rest = trial.lab(), Counter(trial.lab_without().calls())
    trial.provider(lab)
    visitors = [trial.client(lab) for _ in range(3)]
    for each in visitors:
        each.subscribe(SERVICE)
    visitors[0].give(shapes_of(visitors[0].client, 50)[0])
    in_time = lab.close_port(trial.name, 30)
    trial.require(in_time, "the port does not stop within 30 seconds")
    if trial.adapter.can("stream"):
        open_ = sum(each.is_open for each in visitors)
        trial.require(not open_, f"{open_} of 3 clients are still connected after the port has stopped")
    lab.wait(lab.bus.settings.close_timeout + 1)
    left = Counter(lab.calls()) - at_rest
    trial.require(not left, f"timers are left after the stop: {', '.join(sorted(left))}")


@promise()
def the_journal_is_the_registry(trial: Trial) -> None:
    """The registry is what the journal says, at every moment, and still after a restart."""
    lab = trial.lab()
    trial.provider(lab)
    for _ in range(2):
        visitor = lab.visitor(trial.name)
        for message in conversation(visitor):
            visitor.tell(message)
            same = lab.is_as_journaled()
            trial.require(same, "the registry says something else than the journal, after a message of a client")
    lab.restart()
    open_ = [each for each in lab.state.sessions.values() if each.protocol == trial.name and not each.persistent]
    trial.require(not open_, f"{len(open_)} sessions of an earlier boot are still open after a restart")
    trial.provider(lab)
    _everything(trial, lab)
    trial.require(lab.is_as_journaled(), "after a restart, registry and journal differ")


@promise("stream")
def silent_clients_harm_nobody(trial: Trial) -> None:
    """Clients that connect and say nothing, or half a message, keep nobody from being served."""
    lab = trial.lab()
    before = _Before(trial, lab)
    silent = [lab.visitor(trial.name) for _ in range(20)]
    for each in silent[::2]:
        each.send(shapes_of(each.client, 20)[0])
    trial.check_served(lab, "while 20 clients are silent")
    lab.wait(200, 10)
    trial.check_served(lab, "after clients were silent for 200 seconds")
    for each in silent:
        each.leave()
    before.check("after silent clients have left")


PROMISES: tuple[Promise, ...] = (
    sessions_open_once_and_close_once,
    nothing_is_left_of_a_client,
    a_connection_may_break_at_any_time,
    a_half_closed_client_is_served,
    a_session_that_is_ended_is_over,
    a_port_drains_in_time,
    a_stop_ends_everything,
    the_journal_is_the_registry,
    silent_clients_harm_nobody,
)
