"""Promises about requests: one provider is given each, and its reply reaches the asker, whatever they speak."""

from __future__ import annotations

from bussrv.testing.conformance.adapter import Adapter
from bussrv.testing.conformance.formats.objects import ObjectsAdapter
from bussrv.testing.conformance.lab import Visitor, refusals, replies, requests
from bussrv.testing.conformance.trial import OWN, Promise, Trial, promise

QUESTION, ANSWER = b"what\0time\xff", b"a\0quarter\xffpast"


def _exchange(trial: Trial, asker: Adapter, answerer: Adapter) -> None:
    lab = trial.lab()
    provider, other, bystander = lab.member(answerer.name), lab.member(asker.name), lab.member(asker.name)
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
    got = replies(bystander.said())
    trial.require(not got, f"{over} is answered, and a client that asked nothing is given {got!r}")


@promise("ask")
def requests_are_answered(trial: Trial) -> None:
    """A client's request reaches one provider, and the reply reaches the client alone, byte for byte, once."""
    _exchange(trial, trial.adapter, ObjectsAdapter())


@promise("answer")
def providers_are_asked(trial: Trial) -> None:
    """A client that provides a service is given each request once, and its reply reaches the asker, byte for byte."""
    _exchange(trial, ObjectsAdapter(), trial.adapter)


@promise("answer")
def one_provider_is_asked(trial: Trial) -> None:
    """Of several clients that provide a service, one is given a request, and each has its turn."""
    lab = trial.lab()
    providers, asker = [trial.client(lab) for _ in range(2)], lab.member("objects")
    for each in providers:
        each.tell(each.client.provide(OWN))
    turns = []
    for _ in range(2):
        asker.send(asker.client.ask(OWN, b"what"))
        turns.append([len(requests(each.said())) for each in providers])
    trial.require(
        sorted(turns) == [[0, 1], [1, 0]], f"of two requests, the two providers of their service are given {turns!r}"
    )


@promise("ask", "miss")
def askers_are_told_that_there_is_no_provider(trial: Trial) -> None:
    """Who asks for a service that nobody provides is told so at once, and once."""
    lab = trial.lab()
    asker = trial.client(lab)
    asker.send(asker.client.ask(OWN, b"what"))
    said = asker.said()
    trial.require(
        len(refusals(said)) == 1 and not replies(said),
        f"a client asks for a service that nobody provides, and is told {said!r} instead of one refusal",
    )


@promise("answer")
def askers_are_told_that_a_provider_is_gone(trial: Trial) -> None:
    """If a provider goes before it has answered, however it goes, the asker is told at once."""
    for how, go in (("has left", Visitor.leave), ("was lost", Visitor.lose), ("was ended", _end)):
        lab = trial.lab()
        provider, asker = trial.client(lab), lab.member("objects")
        provider.tell(provider.client.provide(OWN))
        asker.send(asker.client.ask(OWN, b"what"))
        given = requests(provider.said())
        trial.require(len(given) == 1, f"a request reaches its provider {len(given)} times instead of once")
        go(provider)
        told = refusals(asker.said())
        trial.require(len(told) == 1, f"the provider of an open request {how}, and its asker is told {told!r}")


def _end(visitor: Visitor) -> None:
    visitor.protocol.evict("closed-by-operator")


PROMISES: tuple[Promise, ...] = (
    requests_are_answered,
    providers_are_asked,
    one_provider_is_asked,
    askers_are_told_that_there_is_no_provider,
    askers_are_told_that_a_provider_is_gone,
)
