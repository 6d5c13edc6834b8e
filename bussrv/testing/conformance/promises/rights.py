"""Promises about identity and permission: a client that is denied something gets neither it nor a positive answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bussrv import events as ev
from bussrv.testing.conformance.adapter import Client, Login
from bussrv.testing.conformance.lab import ANN, BEN, Lab, Visitor, confirmed, payloads, refusals
from bussrv.testing.conformance.trial import ELSEWHERE, GUEST, KEPT_OUT, LET_IN, OWN, SERVICE, Promise, Trial, promise

WRONG = Login("ann", "wrong-secret-of-ann")

MOST_GUESSES = 3
"""After so many wrong secrets the connection ends."""

BAD_NAMES = ("bus/registry", "Bus/x", "a\x01b", "x" * 256, "a\u202eb")
"""Names that no client may provide."""

NAMES_TO_WATCH = ("a\x01b", "x" * 256)


def _denied(trial: Trial, visitor: Visitor, lab: Lab, what: str) -> None:
    """The outcome of something that a policy denies.

    :raises Broken: the client has got it, or was told so.
    """
    said = visitor.said()
    trial.require(not confirmed(said), f"{what} is denied, and the client is told {said!r}")
    denials = [each for each in lab.events(ev.AccessDenied) if each.protocol == trial.name]
    trial.require(denials, f"{what} is denied, and the journal does not say so")


@promise()
def a_denied_subscription_gives_nothing(trial: Trial) -> None:
    """A client that may not watch a service is not subscribed, is told nothing positive, and is given nothing."""
    lab = trial.lab(policy=trial.rules(LET_IN, GUEST))
    provider = trial.provider(lab)
    provider.publish(SERVICE, b"shut")
    visitor = trial.client(lab, host=KEPT_OUT)
    visitor.history.clear()
    visitor.send(visitor.client.subscribe(SERVICE))
    provider.publish(SERVICE, b"open")
    said = visitor.said()
    got = payloads(said, SERVICE)
    trial.require(not got, f"a client that may not watch a service is given {got!r} on it")
    if trial.adapter.can("deny"):
        trial.require(not confirmed(said), f"a client that may not watch a service is told {said!r}")


@promise("publish")
def a_denied_service_is_not_provided(trial: Trial) -> None:
    """A client that may not provide a service does not, and is told nothing positive."""
    lab = trial.lab(policy=trial.rules(LET_IN, GUEST))
    visitor = trial.client(lab, host=KEPT_OUT)
    client = visitor.client
    visitor.send(client.provide(OWN) if trial.adapter.can("provide") else client.publish(OWN, b"on"))
    trial.require(OWN not in lab.state.services, "a client that may not provide a service provides it all the same")
    _denied(trial, visitor, lab, "providing a service")


@promise("publish")
def a_denied_publication_reaches_nobody(trial: Trial) -> None:
    """What a client publishes that may not reaches nobody, and the client is told nothing positive."""
    lab = trial.lab(policy=trial.rules(LET_IN, provide=[OWN]))
    trial.provider(lab, OWN)
    observer = trial.observer(lab, OWN)
    visitor = trial.client(lab, host=KEPT_OUT)
    if trial.adapter.can("provide"):
        visitor.provide(OWN)
    visitor.send(visitor.client.publish(OWN, b"forged"))
    got = payloads(observer.said(), OWN)
    trial.require(not got, f"what a client published that may not reaches a subscriber, as {got!r}")
    _denied(trial, visitor, lab, "publishing")


@promise("pattern")
def a_pattern_shows_only_what_may_be_watched(trial: Trial) -> None:
    """Of the services that a pattern covers, a client is given only those that it may watch."""
    lab = trial.lab(policy=trial.rules(LET_IN, watch=["!kit/secret", "kit/*"]))
    wanted = {"kit/open": True, "kit/secret": False}
    providers = {name: trial.provider(lab, name) for name in wanted}
    for name, provider in providers.items():
        provider.publish(name, b"before")
    visitor = trial.client(lab, host=KEPT_OUT)
    visitor.send(visitor.client.subscribe_below("kit"))
    got = [service for service, _ in visitor.published() if service != "kit/open"]
    trial.require(not got, f"a pattern gives a client the state of {got!r}, which it may not watch")
    for name, provider in providers.items():
        provider.publish(name, b"on")
        got = [service for service, _ in visitor.published()]
        trial.require(got == [name] * wanted[name], f"a client whose pattern covers {name!r} is given {got!r} of it")


@promise()
def a_withdrawn_permission_ends_a_subscription(trial: Trial) -> None:
    """A client is given nothing more on a service once it may not watch it any more."""
    lab = trial.lab(policy=trial.rules(LET_IN, GUEST))
    provider = trial.provider(lab)
    visitor = trial.client(lab, host=GUEST)
    visitor.subscribe(SERVICE)
    provider.publish(SERVICE, b"shut")
    trial.require(payloads(visitor.history + visitor.said(), SERVICE), "a client that may watch a service gets nothing")
    lab.permit(trial.rules(LET_IN))
    provider.publish(SERVICE, b"open")
    got = payloads(visitor.said(), SERVICE)
    trial.require(not got, f"a client that may not watch a service any more is given {got!r} on it")


@promise("refuse")
def a_refusal_ends_nothing(trial: Trial) -> None:
    """A client that is refused something is told so once, stays connected, and its next message is served."""
    lab = trial.lab(policy=trial.rules(LET_IN, GUEST))
    trial.provider(lab)
    visitor = trial.client(lab, host=GUEST)
    if trial.adapter.can("publish"):
        client = visitor.client
        name = ELSEWHERE
        said = visitor.tell(client.provide(name) if trial.adapter.can("provide") else client.publish(name, b"x"))
        what = "providing a service"
    else:
        said, what = visitor.subscribe(ELSEWHERE), "a subscription"
    trial.require(visitor.is_open, f"{what} is denied, and the connection is closed")
    trial.require(len(refusals(said)) == 1, f"{what} is denied, and the client is told {said!r}, not one refusal")
    said = visitor.subscribe(SERVICE)
    trial.require(not refusals(said), f"after a refusal, what a client may do is refused, too: {said!r}")


def _attempts(visitor: Visitor) -> list[tuple[str, bytes]]:
    client, can = visitor.client, visitor.adapter.can
    found = [("subscribes", client.subscribe(SERVICE))]
    if can("publish"):
        if can("provide"):
            found.append(("provides a service", client.provide(OWN)))
        found.append(("publishes", client.publish(OWN, b"forged")))
    return found


def _try_everything(trial: Trial, lab: Lab, visitor: Visitor, who: str) -> None:
    """A client that may do nothing tries everything.

    :raises Broken: it has got something.
    """
    provider = trial.provider(lab, login=ANN)
    observer = trial.observer(lab, OWN, login=ANN)
    provider.publish(SERVICE, b"shut")
    for what, message in _attempts(visitor):
        if not visitor.is_open:
            break
        said = visitor.tell(message)
        trial.require(not confirmed(said), f"{who} {what}, and is told {said!r}")
    provider.publish(SERVICE, b"open")
    got = payloads(visitor.history + visitor.said(), SERVICE)
    trial.require(not got, f"{who} is given {got!r}")
    trial.require(OWN not in lab.state.services, f"{who} provides a service")
    trial.require(not payloads(observer.said(), OWN), f"what {who} published reaches a subscriber")


@promise("login")
def strangers_get_nothing(trial: Trial) -> None:
    """If the server asks clients who they are, one that has not said so gets nothing, and nothing positive."""
    lab = trial.lab(asks=True)
    visitor = lab.visitor(trial.name)
    join = visitor.client.join()
    _try_everything(trial, lab, visitor, "a client that has not logged in")
    if join:
        visitor = lab.visitor(trial.name)
        visitor.join()
        _try_everything(trial, lab, visitor, "a client that joined without a login")


@promise("login")
def wrong_secrets_get_nothing(trial: Trial) -> None:
    """A client with a wrong secret is not told that it has logged in, and gets nothing; the journal has it."""
    lab = trial.lab(asks=True)
    visitor = lab.visitor(trial.name, WRONG)
    said = visitor.join()
    trial.require(not confirmed(said), f"a client with a wrong secret is told {said!r}")
    failed = [each for each in lab.events(ev.AuthFailed) if each.protocol == trial.name]
    trial.require(failed, "a wrong secret is not in the journal")
    trial.require(
        all(each.claimed == WRONG.user and each.actor is None for each in failed),
        "a wrong secret is in the journal without the name that the client claimed, or as if it were that user",
    )
    _try_everything(trial, lab, visitor, "a client with a wrong secret")


@promise("login")
def right_secrets_let_in(trial: Trial) -> None:
    """A client with the right secret is that user from then on, in the registry and for the policy."""
    lab = trial.lab(asks=True)
    provider = trial.provider(lab, login=ANN)
    visitor = trial.client(lab, BEN)
    actors = [each.actor for each in lab.state.sessions.values() if each.actor == BEN.user]
    trial.require(actors, f"a client has logged in as {BEN.user!r}, and the registry has no session of that user")
    journaled = [each.actor for each in lab.events(ev.AuthSucceeded) if each.protocol == trial.name]
    trial.require(BEN.user in journaled, f"{BEN.user!r} has logged in, and the journal has logins of {journaled!r}")
    visitor.subscribe(SERVICE)
    visitor.said()
    provider.publish(SERVICE, b"open")
    got = payloads(visitor.said(), SERVICE)
    trial.require(got == [b"open"], f"a client that has logged in subscribes, and is given {got!r}")


@promise("login", "stream")
def guesses_end(trial: Trial) -> None:
    """A client that guesses secrets is disconnected after three of them."""
    lab = trial.lab(asks=True)
    visitor = lab.visitor(trial.name, WRONG)
    guesses = 0
    while visitor.is_open and guesses <= MOST_GUESSES:
        visitor.join()
        guesses += 1
        lab.wait(lab.bus.settings.close_timeout)
    trial.require(not visitor.is_open, f"a client is still connected after {guesses} wrong secrets")


@promise("login")
def secrets_stay_secret(trial: Trial) -> None:
    """No secret that a client sends is in the log, in the journal, or in what others are sent."""
    lab = trial.lab(asks=True)
    trial.provider(lab, login=ANN)
    observer = trial.observer(lab, OWN, login=ANN)
    for login in (ANN, WRONG, Login("nobody", "secret-of-nobody")):
        visitor = lab.visitor(trial.name, login)
        visitor.join()
        visitor.leave()
        broken = lab.visitor(trial.name, login)
        broken.send(broken.client.join()[:-1])
        broken.leave()
        places = {
            "the log": "\n".join([*lab.log, *lab.failures]),
            "the journal": repr(lab.journal.records),
            "what others are sent": repr(observer.said()),
        }
        for place, text in places.items():
            trial.require(login.secret not in text, f"the secret of a login is in {place}")


def _publication(client: Client, service: str) -> bytes:
    return client.publish(service, b"x")


@promise()
def bad_names_stay_outside(trial: Trial) -> None:
    """Names that no service may have are refused: they are never in the registry, and nothing is changed to fit."""
    for name in BAD_NAMES:
        lab = trial.lab()
        visitor = trial.client(lab)
        client, can = visitor.client, trial.adapter.can
        messages: list[Callable[[str], bytes]] = [client.subscribe] if name in NAMES_TO_WATCH else []
        if can("publish"):
            messages.append(client.provide if can("provide") else partial(_publication, client))
        for make in messages:
            try:
                message = make(name)
            except ValueError:
                continue  # The format cannot even say it.
            said = visitor.tell(message)
            trial.require(
                not confirmed(said), f"for the name {name[:20]!r}, which is not allowed, a client is told {said!r}"
            )
        names = {*lab.state.services}
        for each in lab.state.subscriptions.values():
            names.update(service for service in each if service)
        trial.require(not names, f"the name {name[:20]!r} is not allowed, and {sorted(names)} is in the registry")


PROMISES: tuple[Promise, ...] = (
    a_denied_subscription_gives_nothing,
    a_denied_service_is_not_provided,
    a_denied_publication_reaches_nobody,
    a_pattern_shows_only_what_may_be_watched,
    a_withdrawn_permission_ends_a_subscription,
    a_refusal_ends_nothing,
    strangers_get_nothing,
    wrong_secrets_get_nothing,
    right_secrets_let_in,
    guesses_end,
    secrets_stay_secret,
    bad_names_stay_outside,
)
