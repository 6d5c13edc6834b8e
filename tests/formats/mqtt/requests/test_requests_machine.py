"""Requests against an obvious model: askers and providers of MQTT and of the object network, in whatever order.

The model is a list of requests, each with its asker, the provider that was given it, and whether it is open. After each
step, everything that each asker was told is compared with the model.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.wire.mqtt import packets
from tests.formats.mqtt.requests.exchange import ANSWERS, SERVICE, Given, MemberEnd, MqttEnd, end
from tests.formats.network import Network
from tests.journal.support import fold
from tests.size import sized

ASKERS = ("mqtt", "mqtt", "objects")
PROVIDERS = ("mqtt", "objects", "mqtt")
TIMEOUT = 10.0
STEP = 3.0

_asker = st.sampled_from(range(len(ASKERS)))
_provider = st.sampled_from(range(len(PROVIDERS)))
_pick = st.integers(0, 30)
_ask = st.tuples(st.just("ask"), _asker)
_reply = st.tuples(st.just("reply"), _pick, st.sampled_from([None, None, "busy"]))
_rare = st.one_of(
    *(st.tuples(st.just(what), _provider) for what in ("provide", "provide", "withdraw", "provider_leaves")),
    *(st.tuples(st.just(what), _asker) for what in ("asker_leaves", "asker_listens_no_more", "asker_listens")),
    st.tuples(st.just("another_replies"), _pick, _provider),
    st.tuples(st.just("time_passes")),
)
_steps = st.lists(st.one_of(_ask, _ask, _reply, _rare), min_size=30, max_size=60)

Outcome = tuple[str, str | None]
"""What a request was made with, and the reason of its error."""


class Asker:
    """:ivar told: what it should have been told since somebody looked."""

    def __init__(self, network: Network, name: str) -> None:
        self.end = end(network, name)
        self.listens = True
        self.told: list[Outcome] = []

    def tell(self, about: str, error: str | None) -> None:
        if self.listens:
            self.told.append((about, error))


class Provider:
    def __init__(self, network: Network, name: str) -> None:
        self.end = end(network, name)
        self.provides = False


class Request:
    """:ivar is_open: whether a reply to it reaches its asker."""

    def __init__(self, about: str, asker: Asker, provider: Provider, handle: Given, when: float) -> None:
        self.about, self.asker, self.provider, self.handle, self.when = about, asker, provider, handle, when
        self.is_open, self.is_answered = True, False

    def answer(self, error: str | None = None) -> None:
        if self.is_open:
            self.asker.tell(self.about, error)
            self.is_answered = True
            # Members are given all replies, and those of MQTT one.
            self.is_open = isinstance(self.asker.end, MemberEnd)


class Scene:
    """:ivar requests: those that a provider was given."""

    def __init__(self) -> None:
        self.network = Network(request_timeout=TIMEOUT)
        self.askers = [Asker(self.network, name) for name in ASKERS]
        self.providers = [Provider(self.network, name) for name in PROVIDERS]
        self.requests: list[Request] = []
        self.made = 0

    def provide(self, number: int) -> None:
        provider = self.providers[number]
        if not provider.provides:
            provider.provides = True
            provider.end.provide()

    def withdraw(self, number: int) -> None:
        provider = self.providers[number]
        if provider.provides:
            provider.provides = False
            provider.end.withdraw()
            self.gone(provider, for_good=False)

    def provider_leaves(self, number: int) -> None:
        provider = self.providers[number]
        provider.end.leave()
        self.gone(provider, for_good=True)
        self.providers[number] = Provider(self.network, PROVIDERS[number])

    def gone(self, provider: Provider, *, for_good: bool) -> None:
        """:param for_good: whether it cannot reply any more either."""
        self.network.reactor.advance(0)
        for request in self.requests:
            if request.provider is provider and request.is_open:
                if not request.is_answered:
                    request.answer("provider-gone")
                    request.is_open = False
                elif for_good:
                    request.is_open = False

    def ask(self, number: int) -> None:
        asker, self.made = self.askers[number], self.made + 1
        about = f"q{self.made}"
        is_taken = any(each.provides for each in self.providers)
        asker.end.ask(about, b"on?", "text/plain")
        # Those who provide nothing may observe requests, too.
        given = [(each, handle) for each in self.providers for handle in each.end.requests() if each.provides]
        if not is_taken or not asker.listens:
            assert given == []
            if isinstance(asker.end, MemberEnd):
                asker.tell(about, "no-such-service")
            return
        ((provider, handle),) = given
        self.requests.append(Request(about, asker, provider, handle, self.network.reactor.seconds()))

    def asker_leaves(self, number: int) -> None:
        asker = self.askers[number]
        asker.end.leave()
        for request in self.requests:
            if request.asker is asker:
                request.is_open = False
        self.askers[number] = Asker(self.network, ASKERS[number])

    def asker_listens_no_more(self, number: int) -> None:
        asker = self.askers[number]
        if isinstance(asker.end, MqttEnd) and asker.listens:
            asker.end.peer.send(packets.Unsubscribe(5, (ANSWERS,)))
            asker.listens = False

    def asker_listens(self, number: int) -> None:
        asker = self.askers[number]
        if isinstance(asker.end, MqttEnd) and not asker.listens:
            asker.end.peer.send(packets.Subscribe(6, (packets.WantedFilter(ANSWERS),)))
            asker.listens = True

    def reply(self, pick: int, error: str | None) -> None:
        """Again, perhaps, or too late."""
        if not self.requests:
            return
        request = self.requests[-1 - pick % len(self.requests)]
        if request.provider not in self.providers:
            return
        if error is None:
            request.provider.end.reply(request.handle, b"on", "text/plain")
        else:
            request.provider.end.reject(request.handle, error)
        request.answer(error)

    def another_replies(self, pick: int, number: int) -> None:
        """A provider that was not given the request, though it knows all of it."""
        if not self.requests:
            return
        request, other = self.requests[pick % len(self.requests)], self.providers[number]
        if request.provider is not other and type(request.provider.end) is type(other.end):
            other.end.reply(request.handle, b"forged", "text/plain")

    def time_passes(self) -> None:
        self.network.reactor.advance(STEP)
        now = self.network.reactor.seconds()
        for request in self.requests:
            if request.is_open and request.when + TIMEOUT < now:
                if isinstance(request.asker.end, MqttEnd):
                    request.answer("reply-timeout")
                request.is_open = False

    def each_asker_is_told_what_the_model_says(self) -> None:
        for asker in self.askers:
            told = [(each.about, each.error) for each in asker.end.answers()]
            assert told == asker.told
            asker.told = []

    def the_registry_says_the_same(self) -> None:
        state = self.network.registry.state
        assert state == fold(self.network.journal.records)
        ends = [each.end for each in self.providers if each.provides]
        providing = {each.peer.session_id for each in ends if isinstance(each, MqttEnd)}
        assert {each for each in state.sessions if self.network.bus.exchanges.answers(each, SERVICE)} == providing


@settings(max_examples=sized(150))
@given(_steps)
def test_each_request_has_the_outcome_that_the_model_says(steps: list[Any]) -> None:
    scene = Scene()
    for number in range(len(PROVIDERS)):
        scene.provide(number)
    for what, *details in steps:
        getattr(scene, what)(*details)
        scene.each_asker_is_told_what_the_model_says()
        scene.the_registry_says_the_same()
