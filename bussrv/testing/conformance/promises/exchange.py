"""Promises about requests: one provider is given each, and its reply reaches the asker, whatever they speak."""

from __future__ import annotations

from bussrv.testing.conformance.adapter import Adapter
from bussrv.testing.conformance.formats.objects import ObjectsAdapter
from bussrv.testing.conformance.lab import Visitor, refusals, replies, requests
from bussrv.testing.conformance.trial import OWN, Promise, Trial, promise

QUESTION, ANSWER = b"what\0time\xff", b"a\0quarter\xffpast"


def _exchange(trial: Trial, asker: Adapter, answerer: Adapter) -> None:
    lab = trial.lab()
    provider, other = lab.member(answerer.name), lab.member(asker.name)
    provider.tell(provider.client.provide(OWN))
    question, answer = (QUESTION, ANSWER) if asker.can("bytes") and answerer.can("bytes") else (b"what", b"that")
    other.send(other.client.ask(OWN, question))
    given = requests(provider.said())
    over = f"a request over {asker.name} for a service over {answerer.name}"
    trial.require(
        [(each.service, each.payload) for each in given] == [(OWN, question)],
        f"{over} reaches its provider as {given!r} instead of once as {question!r}",
    )
    provider.send(provider.client.answer(given[0], answer))
    got = replies(other.said())
    trial.require(got == [answer], f"{over} is answered with {answer!r}, and the asker is given {got!r}")


@promise("ask")
def requests_are_answered(trial: Trial) -> None:
    """A client's request reaches one provider, and the reply reaches the client, byte for byte, once."""
    _exchange(trial, trial.adapter, ObjectsAdapter())


@promise("answer")
def providers_are_asked(trial: Trial) -> None:
    """A client that provides a service is given each request once, and its reply reaches the asker, byte for byte."""
    _exchange(trial, ObjectsAdapter(), trial.adapter)


@promise("answer")
def askers_are_told_that_a_provider_is_gone(trial: Trial) -> None:
    """If a provider goes before it has answered, the asker is told at once."""
    lab = trial.lab()
    provider, asker = trial.client(lab), lab.member("objects")
    provider.tell(provider.client.provide(OWN))
    asker.send(asker.client.ask(OWN, b"what"))
    _has_one(trial, provider)
    provider.leave()
    told = refusals(asker.said())
    trial.require(len(told) == 1, f"the provider of an open request has gone, and its asker is told {told!r}")


def _has_one(trial: Trial, provider: Visitor) -> None:
    given = requests(provider.said())
    trial.require(len(given) == 1, f"a request reaches its provider {len(given)} times instead of once")


PROMISES: tuple[Promise, ...] = (
    requests_are_answered,
    providers_are_asked,
    askers_are_told_that_a_provider_is_gone,
)
