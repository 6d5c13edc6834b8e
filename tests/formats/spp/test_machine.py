"""SPP against an obvious model: watchers and providers in whatever order, over a journal that is slow or fails.

The model is a queue of commands for each client, and one queue of changes that are on their way to the disk. A client
whose change is on its way does nothing else until it is there. What each watcher is sent is compared packet by packet.

Most rules take a turn of the reactor each. In :meth:`SppMachine.turn` several clients speak, and the journal goes on,
within one: what was published before a subscription is durable does not reach its watcher, and all that follows does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bussrv.wire import spp
from bussrv.wire.objects import encode
from bussrv.wire.spp import Info, Offer, Removed
from tests.formats.network import Member, Network, Watcher
from tests.size import sized

PROVIDERS = range(2)
WATCHERS = range(3)
SERVICES = ["tv", "door"]

_service = st.sampled_from(SERVICES)
_asked = st.lists(
    st.tuples(st.sampled_from(["subscribe", "subscribe", "unsubscribe"]), _service), min_size=1, max_size=3
)
_said = st.lists(
    st.tuples(st.sampled_from(["publish", "publish", "register", "register", "unregister"]), _service),
    min_size=1,
    max_size=4,
)
_step = st.sampled_from(["one", "one", "all", "all", "fail"])
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from(WATCHERS), _asked),
        st.tuples(st.just("say"), st.sampled_from(PROVIDERS), _said),
        st.tuples(st.just("journal"), _step),
    ),
    min_size=2,
    max_size=8,
)
Command = tuple[str, str, bytes]


class Client:
    """What the model knows of a provider or a watcher.

    :ivar waiting: what it said while a change of it was on its way.
    :ivar sent: the packets it is sent, of which nobody has looked at yet.
    """

    def __init__(self) -> None:
        self.waiting: deque[Command] = deque()
        self.busy = False
        self.wants: set[str] = set()
        self.sent: list[spp.Event] = []


class Model:
    """Who provides what, who wants it, and what was published last."""

    def __init__(self) -> None:
        self.watchers: list[Client] = []
        self.provided: dict[str, set[Client]] = {name: set() for name in SERVICES}
        self.last = dict.fromkeys(SERVICES, b"")
        self.on_the_way: deque[tuple[Client, Callable[[], None]]] = deque()
        self.held = self.failing = False

    def hear(self, client: Client, commands: list[Command]) -> None:
        client.waiting += commands
        while client.waiting and not client.busy:
            what, service, payload = client.waiting.popleft()
            getattr(self, what)(client, service, payload)

    def change(self, client: Client, apply: Callable[[], None]) -> None:
        if self.failing:
            return
        if not self.held:
            apply()
            return
        client.busy = True
        self.on_the_way.append((client, apply))

    def arrive(self) -> None:
        """The first change is on the disk, or has failed to get there."""
        client, apply = self.on_the_way.popleft()
        if not self.failing:
            apply()
        client.busy = False
        self.hear(client, [])

    # What watchers say.

    def subscribe(self, client: Client, service: str, _: bytes) -> None:
        if not self.provided[service]:
            return
        if service in client.wants:
            client.sent.append(Info(service, self.last[service]))
        else:
            self.change(client, lambda: self.subscribed(client, service))

    def subscribed(self, client: Client, service: str) -> None:
        if self.provided[service]:
            client.wants.add(service)
            client.sent.append(Info(service, self.last[service]))

    def unsubscribe(self, client: Client, service: str, _: bytes) -> None:
        if service in client.wants:
            self.change(client, lambda: client.wants.discard(service))

    # What providers say.

    def publish(self, client: Client, service: str, payload: bytes) -> None:
        if client not in self.provided[service]:
            return
        self.last[service] = payload
        for watcher in self.watchers:
            if service in watcher.wants:
                watcher.sent.append(Info(service, payload))

    def register(self, client: Client, service: str, _: bytes) -> None:
        if client not in self.provided[service]:
            self.change(client, lambda: self.appeared(client, service))

    def appeared(self, client: Client, service: str) -> None:
        self.provided[service].add(client)
        if len(self.provided[service]) == 1:
            self.tell_all(Offer(service))

    def unregister(self, client: Client, service: str, _: bytes) -> None:
        if client in self.provided[service]:
            self.change(client, lambda: self.went(client, service))

    def went(self, client: Client, service: str) -> None:
        self.provided[service].discard(client)
        if not self.provided[service]:
            self.last[service] = b""
            self.tell_all(Removed(service))

    def tell_all(self, event: spp.Event) -> None:
        for watcher in self.watchers:
            watcher.sent.append(event)

    # Who comes and goes.

    def connected(self) -> Client:
        client = Client()
        client.sent += [Offer(service) for service in sorted(SERVICES) if self.provided[service]]
        self.watchers.append(client)
        return client

    def gone(self, client: Client) -> None:
        self.on_the_way = deque(each for each in self.on_the_way if each[0] is not client)
        if client in self.watchers:
            self.watchers.remove(client)
        for service in sorted(SERVICES):
            if client in self.provided[service]:
                self.went(client, service)


class SppMachine(RuleBasedStateMachine):
    """The server and the model, told the same."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Network()
        self.model = Model()
        self.published = 0
        self.providers: list[tuple[Member, Client]] = []
        self.watchers: list[tuple[Watcher, Client]] = []
        self.paused: set[int] = set()
        self.absent: set[int] = set()

    @initialize(in_turns=st.booleans())
    def connect(self, in_turns: bool) -> None:
        for name in ("objects", "spp"):
            self.network.factory(name).in_turns = in_turns
        self.providers = [self.new_provider() for _ in PROVIDERS]
        self.watchers = [self.new_watcher() for _ in WATCHERS]
        self.say(0, [("register", name) for name in SERVICES])
        self.ask(0, [("subscribe", name) for name in SERVICES])

    def new_provider(self) -> tuple[Member, Client]:
        return self.network.member(receive_mode="none"), Client()

    def new_watcher(self) -> tuple[Watcher, Client]:
        return self.network.watcher(), self.model.connected()

    @rule(number=st.sampled_from(WATCHERS), asked=_asked)
    def ask(self, number: int, asked: list[tuple[str, str]]) -> None:
        watcher, client = self.watchers[number]
        watcher.connection.send_bytes(b"".join(getattr(spp, what)(service) for what, service in asked))
        self.model.hear(client, [(what, service, b"") for what, service in asked])

    @rule(number=st.sampled_from(PROVIDERS), services=st.lists(_service, min_size=2, max_size=5))
    def publish(self, number: int, services: list[str]) -> None:
        self.say(number, [("publish", service) for service in services])

    @rule(number=st.sampled_from(PROVIDERS), said=_said)
    def say(self, number: int, said: list[tuple[str, str]]) -> None:
        provider, client = self.providers[number]
        commands = []
        for what, service in said:
            self.published += 1
            commands.append((what, service, b"%d" % self.published))
        provider.connection.send_bytes(b"".join(as_object(*each) for each in commands))
        self.model.hear(client, commands)

    @rule(step=_step)
    def journal(self, step: str) -> None:
        """The journal stands still; or, when it does, goes on in one of three ways."""
        journal, model = self.network.journal, self.model
        if model.failing:
            journal.fail(None)
            model.failing = False
        elif not model.held:
            journal.hold()
            model.held = True
        elif step == "one" and model.on_the_way:
            self.release_one()
            model.arrive()
        else:
            model.failing = step == "fail"
            journal.fail("no space left") if model.failing else journal.release()
            while model.on_the_way:
                model.arrive()
            model.held = False
        self.replace_absent()

    @rule(steps=_steps)
    def turn(self, steps: list[tuple[Any, ...]]) -> None:
        """All this happens in one turn of the reactor, save that a member that joins ends it."""
        for what, *about in steps:
            getattr(self, what)(*about)

    def release_one(self) -> None:
        """Up to the first change of a session that is there; notes, for which nobody waits, are no changes."""
        held: Any = self.network.journal._held
        sessions = self.network.registry.state.sessions
        arrived = False
        while not arrived:
            first = held[0]
            arrived = first.waiter is not None and first.stamped[0].event.session in sessions
            self.network.journal.release(1)

    @rule(number=st.sampled_from(PROVIDERS))
    def replace_provider(self, number: int) -> None:
        """A provider goes. Another one comes at once, or when the journal goes on: it cannot join before."""
        provider, client = self.providers[number]
        provider.connection.close()
        self.model.gone(client)
        client.busy = True  # for ever
        self.absent.add(number)
        self.replace_absent()

    def replace_absent(self) -> None:
        if self.model.held or self.model.failing:
            return
        for number in self.absent:
            self.providers[number] = self.new_provider()
            self.say(number, [("register", SERVICES[number])])
        self.absent.clear()

    @rule(number=st.sampled_from(WATCHERS))
    def replace_watcher(self, number: int) -> None:
        watcher, client = self.watchers[number]
        watcher.connection.close()
        self.model.gone(client)
        self.paused.discard(number)
        self.watchers[number] = self.new_watcher()

    @rule(number=st.sampled_from(WATCHERS))
    def read_no_more_or_again(self, number: int) -> None:
        link = self.watchers[number][0].connection.protocol.link
        link.resumeProducing() if number in self.paused else link.pauseProducing()
        self.paused ^= {number}

    @invariant()
    def every_watcher_was_sent_what_the_model_says(self) -> None:
        for number, (watcher, client) in enumerate(self.watchers):
            received = watcher.received()
            if number in self.paused:
                # What was sent before the transport was full was looked at then.
                assert received == []
            else:
                assert received == client.sent
                client.sent = []

    @invariant()
    def the_registry_says_the_same(self) -> None:
        state = self.network.registry.state
        for watcher, client in self.watchers:
            session_id = watcher.connection.protocol.session_id
            assert {service for service in SERVICES if state.subscription(session_id, service)} == client.wants
        assert sorted(state.services) == sorted(name for name in SERVICES if self.model.provided[name])


def as_object(what: str, service: str, payload: bytes) -> bytes:
    if what == "publish":
        return encode({"type": "text/plain", "sender": service}, payload)
    return encode({"event": f"services/{what}", "name": service})


SppMachine.TestCase.settings = settings(max_examples=sized(150), stateful_step_count=40)
TestSpp = SppMachine.TestCase
