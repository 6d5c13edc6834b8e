"""Promises about the write-ahead rule: nothing is answered, and nobody is told of it, before it is durable."""

from __future__ import annotations

from collections.abc import Callable

from bussrv.testing.conformance.adapter import Client
from bussrv.testing.conformance.lab import Lab, Visitor, confirmed, payloads
from bussrv.testing.conformance.trial import GUEST, KEPT_OUT, LET_IN, OWN, SERVICE, Promise, Trial, promise

CHUNKS = 50

NEW = "kit/new"


@promise()
def a_subscription_waits_for_the_disk(trial: Trial) -> None:
    """A client is told of its subscription, and is given publications, only once the journal has it."""
    lab = trial.lab()
    provider = trial.provider(lab)
    provider.publish(SERVICE, b"shut")
    visitor = trial.client(lab)
    lab.hold()
    visitor.send(visitor.client.subscribe(SERVICE))
    trial.require(lab.journal.changes_held, "a subscription is not written to the journal")
    provider.publish(SERVICE, b"open")
    said = visitor.said()
    trial.require(not confirmed(said), f"a client is told {said!r} before its subscription is durable")
    trial.require(not payloads(said, SERVICE), "a client is given publications before its subscription is durable")
    lab.release()
    said = visitor.said()
    if trial.adapter.can("confirm"):
        trial.require(confirmed(said), f"once its subscription is durable, a client is told {said!r}, no confirmation")


@promise("publish")
def a_service_waits_for_the_disk(trial: Trial) -> None:
    """A client is told that it provides a service, and others learn of it, only once the journal has it."""
    lab = trial.lab()
    visitor = trial.client(lab)
    lab.hold()
    client = visitor.client
    visitor.send(client.provide(OWN) if trial.adapter.can("provide") else client.publish(OWN, b"on"))
    said = visitor.said()
    trial.require(lab.journal.changes_held, "a new service is not written to the journal")
    trial.require(not confirmed(said), f"a client is told {said!r} before its service is durable")
    trial.require(OWN not in lab.state.services, "a service is known to others before it is durable")
    lab.release()
    trial.require(OWN in lab.state.services, "a service is not there although it is durable")


@promise("stream", "pipelining", "publish")
def later_input_waits(trial: Trial) -> None:
    """While a change of a client is on its way to the disk, nothing that the client sent later is served."""
    say = (lambda client: client.provide(NEW)) if trial.adapter.can("provide") else _publication_on_new
    _check_publication_waits(trial, "a new service", say)
    if trial.adapter.can("mixed"):
        _check_publication_waits(trial, "a subscription", lambda client: client.subscribe(SERVICE))


def _publication_on_new(client: Client) -> bytes:
    return client.publish(NEW, b"first")


def _check_publication_waits(trial: Trial, change: str, say: Callable[[Client], bytes]) -> None:
    lab = trial.lab()
    trial.provider(lab)
    observer = trial.observer(lab, OWN)
    visitor = trial.client(lab)
    if trial.adapter.can("provide"):
        visitor.provide(OWN)
    else:
        visitor.publish(OWN, b"first")
    observer.said()
    lab.hold()
    visitor.send(say(visitor.client) + visitor.client.publish(OWN, b"on"))
    early = payloads(observer.said(), OWN)
    lab.release()
    late = payloads(observer.said(), OWN)
    trial.require(
        not early, f"a publication is served while {change}, for which its client asked before it, is on its way"
    )
    trial.require(
        late == [b"on"],
        f"a client of {trial.name} asks for {change} and publishes, in one chunk: once the change is durable, a "
        f"subscriber over objects is given {late!r} instead of [b'on']",
    )


@promise("stream")
def waiting_clients_are_not_read(trial: Trial) -> None:
    """While a change of a client is on its way to the disk, no more is read from its connection."""
    lab = trial.lab()
    trial.provider(lab)
    trial.provider(lab, "window")
    visitor, begun = trial.client(lab), trial.bystanders(lab)
    lab.hold()
    visitor.send(visitor.client.subscribe(SERVICE))
    messages = [visitor.client.subscribe("window") for _ in range(CHUNKS)]
    for each in messages:
        visitor.send(each)
    unread = len(visitor.wire.pipe.waiting)
    trial.check_served(lab, "while a change of another client is on its way to the disk", begun)
    lab.release()
    trial.require(
        unread >= sum(map(len, messages[2:])),
        f"of {CHUNKS} messages that were sent during a change, the server read all but {unread} bytes",
    )


@promise("stream")
def a_change_that_is_not_written_is_refused(trial: Trial) -> None:
    """If the journal cannot be written, changes are refused, nothing is confirmed, and it recovers with the disk."""
    lab = trial.lab()
    provider = trial.provider(lab)
    visitor = trial.client(lab)
    begun = trial.bystanders(lab)
    lab.journal.fail("No space left on device")
    said = visitor.subscribe(SERVICE)
    if trial.adapter.can("publish"):
        client = visitor.client
        said += visitor.tell(client.provide(OWN) if trial.adapter.can("provide") else client.publish(OWN, b"on"))
    trial.check_served(lab, "while the disk is full", begun)
    lab.journal.fail(None)
    trial.require(not confirmed(said), f"the disk is full, and a client is told {said!r}")
    trial.require(OWN not in lab.state.services, "the disk is full, and a service is registered all the same")
    provider.publish(SERVICE, b"open")
    trial.require(not payloads(visitor.said(), SERVICE), "the disk was full, and a client is subscribed all the same")
    trial.require(lab.is_as_journaled(), "after a full disk, registry and journal differ")
    later = visitor if visitor.is_open else trial.client(lab)
    later.subscribe(SERVICE)
    provider.publish(SERVICE, b"shut")
    trial.require(
        b"shut" in payloads(later.history + later.said(), SERVICE),
        "after a full disk, clients cannot subscribe any more",
    )


@promise()
def a_permission_may_go_while_a_change_is_written(trial: Trial) -> None:
    """A client whose permission is withdrawn while its change is on its way to the disk is told no success."""
    lab = trial.lab(policy=trial.rules(LET_IN, GUEST))
    provider = trial.provider(lab)
    visitor = trial.client(lab, host=GUEST)
    _withdraw_during(trial, lab, visitor, "change", visitor.client.subscribe(SERVICE))
    provider.publish(SERVICE, b"open")
    got = payloads(visitor.said(), SERVICE)
    trial.require(not got, "a permission was withdrawn during a subscription, and its client is given publications")
    if trial.adapter.can("provide"):
        lab.permit(trial.rules(LET_IN, provide=[OWN]))
        visitor = trial.client(lab, host=KEPT_OUT)
        _withdraw_during(trial, lab, visitor, "registration", visitor.client.provide(OWN))


def _withdraw_during(trial: Trial, lab: Lab, visitor: Visitor, change: str, message: bytes) -> None:
    lab.hold()
    visitor.send(message)
    lab.permit(trial.rules(LET_IN))
    lab.release()
    said = visitor.said()
    trial.require(not confirmed(said), f"a permission was withdrawn during a {change}, and its client is told {said!r}")


PROMISES: tuple[Promise, ...] = (
    a_subscription_waits_for_the_disk,
    a_service_waits_for_the_disk,
    later_input_waits,
    waiting_clients_are_not_read,
    a_change_that_is_not_written_is_refused,
    a_permission_may_go_while_a_change_is_written,
)
