"""Promises about publications: every subscriber of every format is given the same bytes, in order, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bussrv.testing.conformance.adapter import Adapter
from bussrv.testing.conformance.formats.known import OWN as FORMATS
from bussrv.testing.conformance.formats.known import adapter_of
from bussrv.testing.conformance.lab import Lab, Visitor, payloads, shortened
from bussrv.testing.conformance.trial import OWN, SERVICE, Promise, Trial, promise

PAYLOADS: dict[str, bytes] = {
    "text": "Omega – 0:45".encode(),
    "JSON": b'{"on":1.0}',
    "60 KB of text": b"text" * 15_000,
    "an empty payload": b"",
    "all bytes": bytes(range(256)),
    "lines": b"a\r\nb\n\n\0",
    "60 KB of bytes": bytes(range(256)) * 234,
}
NEEDS = {"an empty payload": "empty", "all bytes": "bytes", "lines": "bytes", "60 KB of bytes": "bytes"}

BURST = [b"%03d" % number for number in range(100)]

MANY_SUBSCRIPTIONS = 70
"""So many that an encoding of the client's own is changed, instead of made anew."""

SMALL = 20_000
"""A limit of bytes that wait for one client."""


def _carries(kind: str, *adapters: Adapter) -> bool:
    return all(each.can(NEEDS[kind]) for each in adapters) if kind in NEEDS else True


def _others() -> Iterator[Adapter]:
    return map(adapter_of, FORMATS)


def _providing(visitor: Visitor, service: str, lab: Lab) -> Callable[[bytes], object]:
    """Let a client provide a service. :returns: publishes on it."""
    if visitor.adapter.can("provide"):
        visitor.provide(service)
    else:
        visitor.publish(service, b"first")
    return lambda payload: visitor.publish(service, payload)


def _crossing(trial: Trial, source: Adapter, to: Adapter) -> None:
    lab = trial.lab(source, to)
    publisher = lab.member(source.name)
    publish = _providing(publisher, OWN, lab)
    subscriber = lab.member(to.name)
    subscriber.subscribe(OWN)
    subscriber.said()
    for kind, payload in PAYLOADS.items():
        if not _carries(kind, source, to):
            continue
        if not _fits(payload, source, to):
            continue
        publish(payload)
        got = payloads(subscriber.said(), OWN)
        trial.require(
            got == [payload],
            f"{kind}, published over {source.name} and received over {to.name}, "
            f"came {_as_what(got)} instead of once as {shortened(payload)}",
        )


def _fits(payload: bytes, *adapters: Adapter) -> bool:
    return len(payload) <= min(each.max_payload for each in adapters)


def _as_what(got: list[bytes]) -> str:
    if not got:
        return "not at all"
    return f"as {shortened(got[0])}" if len(got) == 1 else f"{len(got)} times"


@promise("publish")
def publications_reach_every_other_format(trial: Trial) -> None:
    """What is published over this format reaches the subscribers of every format byte for byte, once."""
    for other in _others():
        if other.name != trial.name:
            _crossing(trial, trial.adapter, other)


@promise()
def publications_come_from_every_other_format(trial: Trial) -> None:
    """Subscribers over this format are given byte for byte, once, what is published over any other."""
    for other in _others():
        if other.name != trial.name and other.can("publish"):
            _crossing(trial, other, trial.adapter)


@promise("publish")
def publications_stay_the_same_within_the_format(trial: Trial) -> None:
    """What one client publishes, another client of the same format is given byte for byte, once."""
    _crossing(trial, trial.adapter, trial.adapter)


@promise()
def publications_keep_their_order(trial: Trial) -> None:
    """The publications of one provider on one service come in order, each once, also if they are sent in one chunk."""
    lab = trial.lab()
    provider = trial.provider(lab)
    subscribers = [trial.client(lab) for _ in range(3)]
    for each in subscribers:
        each.subscribe(SERVICE)
    provider.send(b"".join(provider.client.publish(SERVICE, payload) for payload in BURST))
    for each in subscribers:
        _check_burst(trial, payloads(each.said(), SERVICE), "published over objects in one chunk")
    for payload in BURST:
        provider.publish(SERVICE, payload)
    _check_burst(trial, payloads(subscribers[0].said(), SERVICE), "published over objects one by one")


@promise("publish", "stream", "pipelining")
def own_publications_keep_their_order(trial: Trial) -> None:
    """What a client of the format publishes in one chunk reaches others in order, each once."""
    lab = trial.lab()
    publisher = trial.client(lab)
    publish = _providing(publisher, OWN, lab)
    observer = trial.observer(lab, OWN)
    publish(b"begin")
    observer.said()
    publisher.send(b"".join(publisher.client.publish(OWN, payload) for payload in BURST))
    _check_burst(trial, payloads(observer.said(), OWN), "published by a client in one chunk")


def _check_burst(trial: Trial, got: list[bytes], how: str) -> None:
    if got != BURST:
        wrong = next((n for n, (a, b) in enumerate(zip(got, BURST, strict=False)) if a != b), min(len(got), len(BURST)))
        came = repr(got[wrong]) if wrong < len(got) else "nothing"
        wanted = repr(BURST[wrong]) if wrong < len(BURST) else "nothing"
        trial.broken(f"of {len(BURST)} publications, {how}, the {wrong + 1}th is {came} instead of {wanted}")


@promise("unsubscribe")
def an_unsubscribed_client_is_given_nothing(trial: Trial) -> None:
    """After a client has ended its subscription, it is given no more of that service, and still of others."""
    lab = trial.lab()
    provider = trial.provider(lab)
    provider.provide("window")
    visitor = trial.client(lab)
    for service in (SERVICE, "window"):
        visitor.subscribe(service)
    visitor.tell(visitor.client.unsubscribe(SERVICE))
    provider.publish(SERVICE, b"late")
    provider.publish("window", b"open")
    said = visitor.said()
    trial.require(not payloads(said, SERVICE), "a client that has unsubscribed is still given publications")
    trial.require(payloads(said, "window") == [b"open"], "an unsubscription ends a subscription to another service")


@promise("unsubscribe")
def many_subscriptions_change_one_by_one(trial: Trial) -> None:
    """A client with many subscriptions is given each publication that it wants once, also when one comes or goes."""
    lab = trial.lab()
    names = [f"kit/{number}" for number in range(MANY_SUBSCRIPTIONS + 1)]
    provider, visitor = lab.member("objects"), trial.client(lab)
    for each in names:
        provider.provide(each)
    for each in names[:-1]:
        visitor.subscribe(each)
    visitor.tell(visitor.client.unsubscribe(names[0]))
    visitor.subscribe(names[-1])
    visitor.said()
    for each in names:
        provider.publish(each, b"on")
    got = [service for service, _ in visitor.published()]
    wrong = [each for each in names if got.count(each) != (each != names[0])]
    trial.require(
        not wrong,
        f"a client had {MANY_SUBSCRIPTIONS} subscriptions, ended that to {names[0]!r} and began that to {names[-1]!r}: "
        f"of {wrong[:1]!r} it is given {got.count(wrong[0]) if wrong else 0} publications",
    )


@promise("pattern")
def patterns_cover_what_appears_later(trial: Trial) -> None:
    """A client that subscribed to all services below a name is given what is published on later ones, and no more."""
    lab = trial.lab()
    visitor = trial.client(lab)
    visitor.tell(visitor.client.subscribe_below("kit"))
    for name, wanted in (("kit/1", True), ("kit/2/3", True), ("kitchen", False), (SERVICE, False)):
        trial.provider(lab, name).publish(name, b"on")
        got = [service for service, _ in visitor.published()]
        trial.require(got == [name] * wanted, f"a client that wants all below 'kit' is given {got!r} of {name!r}")


@promise("finer")
def finer_patterns_are_kept_apart(trial: Trial) -> None:
    """Of clients with different patterns of the format's own, each is given what its own ones cover, once."""
    lab = trial.lab()
    tea, milk = "kit/tea", "kit/milk"
    provider = lab.member("objects")
    for name in (tea, milk):
        provider.provide(name)
    clients = []
    for wanted in ([tea], [milk], [tea], [milk], [tea, milk]):
        visitor = trial.client(lab)
        for each in wanted:
            visitor.tell(visitor.client.subscribe_finer("kit", each, milk if each == tea else tea))
        clients.append((wanted, visitor))
    for name in (tea, milk):
        provider.publish(name, b"on")
        for wanted, visitor in clients:
            got = [service for service, _ in visitor.published()]
            trial.require(
                got == [name] * (name in wanted),
                f"a client whose patterns cover {' and '.join(wanted)} is given {got!r} of {name}, while other clients "
                "have patterns that cover the other one",
            )


@promise()
def names_of_services_stay_as_they_are(trial: Trial) -> None:
    """A service is called the same over every format: letter case, blanks inside, slashes and all letters count."""
    for name in ("Door", "kit/door 1", "tür", "日/本"):
        try:
            trial.adapter.client().subscribe(name)
        except ValueError:
            continue  # The format cannot say it.
        lab = trial.lab()
        provider = trial.provider(lab, name)
        like = name.lower() if name != name.lower() else f"{name}x"
        other = trial.provider(lab, like)
        visitor = trial.client(lab)
        visitor.subscribe(name)
        visitor.said()
        other.publish(like, b"other")
        provider.publish(name, b"open")
        got = visitor.published()
        trial.require(
            got == [(name, b"open")], f"a subscriber of {name!r} is given {got!r} instead of one publication on it"
        )


@promise()
def a_subscription_outlives_its_service(trial: Trial) -> None:
    """Whoever is subscribed to a service that goes is given what is published on it when it comes again, once."""
    lab = trial.lab()
    provider = trial.provider(lab)
    visitor = trial.client(lab)
    visitor.subscribe(SERVICE)
    provider.leave()
    visitor.said()
    trial.provider(lab).publish(SERVICE, b"back")
    got = payloads(visitor.said(), SERVICE)
    trial.require(got == [b"back"], f"when a service comes again, its subscriber is given {got!r} instead of [b'back']")


@promise("publish", "stream")
def a_service_may_have_several_providers(trial: Trial) -> None:
    """A service stays until the last of its providers goes, and what each of them publishes reaches its subscribers."""
    lab = trial.lab()
    other, visitor = trial.provider(lab, OWN), trial.client(lab)
    publish, observer = _providing(visitor, OWN, lab), trial.observer(lab, OWN)
    for tell, payload in ((publish, b"mine"), (lambda payload: other.publish(OWN, payload), b"other's")):
        tell(payload)
        got = payloads(observer.said(), OWN)
        trial.require(got == [payload], f"a service has two providers, and {payload!r} of one comes {_as_what(got)}")
    visitor.leave()
    trial.require(OWN in lab.state.services, "a service with another provider is gone with a client that provided it")
    later = trial.client(lab)
    _providing(later, OWN, lab)
    other.leave()
    trial.require(OWN in lab.state.services, "a service that a client provides is gone with another provider of it")
    later.leave()
    trial.require(OWN not in lab.state.services, "the last provider of a service has left, and the service is there")


@promise("state")
def a_subscriber_first_gets_the_state(trial: Trial) -> None:
    """A new subscriber is given the present state once, then each update once. A service that went has no state."""
    lab = trial.lab()
    provider = trial.provider(lab)
    provider.publish(SERVICE, b"shut")
    provider.publish(SERVICE, b"open")
    visitor = trial.client(lab)
    got = payloads(visitor.subscribe(SERVICE), SERVICE)
    trial.require(got == [b"open"], f"a new subscriber is given {got!r}, not the present state b'open' once")
    provider.publish(SERVICE, b"ajar")
    got = payloads(visitor.said(), SERVICE)
    trial.require(got == [b"ajar"], f"after the state, a subscriber is given {got!r} instead of the update b'ajar'")
    provider.leave()
    trial.provider(lab)
    got = [each for each in payloads(trial.client(lab).subscribe(SERVICE), SERVICE) if each]
    trial.require(not got, f"a service went and came again, and a new subscriber is given its former state {got!r}")


@promise("state")
def nothing_is_lost_between_state_and_update(trial: Trial) -> None:
    """What is published while a subscription is on its way to the disk is in the state, or comes after it; once."""
    lab = trial.lab()
    provider = trial.provider(lab)
    provider.publish(SERVICE, b"shut")
    visitor = trial.client(lab)
    lab.hold()
    visitor.send(visitor.client.subscribe(SERVICE))
    provider.publish(SERVICE, b"open")
    lab.release()
    got = payloads(visitor.said(), SERVICE)
    trial.require(got == [b"open"], f"a publication during a subscription came as {got!r} instead of once")


@promise("stream")
def a_slow_reader_holds_nobody_up(trial: Trial) -> None:
    """A client that does not read is ended once its limit is reached; others are given everything meanwhile."""
    lab = trial.lab(max_outbound=SMALL)
    provider = trial.provider(lab)
    slow, prompt = trial.client(lab), trial.client(lab)
    for each in (slow, prompt):
        each.subscribe(SERVICE)
    slow.reads = False
    count = 150
    for number in range(count):
        provider.publish(SERVICE, b"%03d" % number + b"x" * 2000)
        got = payloads(prompt.said(), SERVICE)
        trial.require(len(got) == 1, f"while one client does not read, another one is given {_as_what(got)}")
    waiting = lab.bus.streams.outbound.total
    trial.require(
        waiting <= SMALL + 3000 or not slow.is_open,
        f"{waiting} bytes wait for a client that does not read, although the limit is {SMALL}",
    )
    trial.require(
        slow.wire.pipe.unread < count * 1900,
        f"{slow.wire.pipe.unread} bytes were written to a client that reads nothing: the format writes past its link",
    )
    lab.wait(lab.bus.settings.close_timeout + 10)
    slow.reads = True
    lab.settle()
    trial.require(not slow.is_open, "a client that does not read is still connected when its limit is long reached")


@promise("stream")
def all_that_waits_is_counted(trial: Trial) -> None:
    """All that waits for clients that do not read stays below the limit for all of them."""
    limit = 200_000
    lab = trial.lab(max_outbound=150_000, max_outbound_total=limit)
    provider = trial.provider(lab)
    slow = [trial.client(lab) for _ in range(5)]
    for each in slow:
        each.subscribe(SERVICE)
        each.reads = False
    most = 0
    for number in range(60):
        provider.publish(SERVICE, b"%03d" % number + b"x" * 3000)
        held = sum(each.wire.pipe.unread for each in slow if each.is_open)
        most = max(most, lab.bus.streams.outbound.total, held - 5 * 70_000)
    trial.require(most <= limit + 10_000, f"{most} bytes wait for slow clients, although the limit for all is {limit}")


PROMISES: tuple[Promise, ...] = (
    publications_reach_every_other_format,
    publications_come_from_every_other_format,
    publications_stay_the_same_within_the_format,
    publications_keep_their_order,
    own_publications_keep_their_order,
    an_unsubscribed_client_is_given_nothing,
    many_subscriptions_change_one_by_one,
    patterns_cover_what_appears_later,
    finer_patterns_are_kept_apart,
    names_of_services_stay_as_they_are,
    a_subscription_outlives_its_service,
    a_service_may_have_several_providers,
    a_subscriber_first_gets_the_state,
    nothing_is_lost_between_state_and_update,
    a_slow_reader_holds_nobody_up,
    all_that_waits_is_counted,
)
