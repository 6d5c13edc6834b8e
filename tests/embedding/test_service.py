"""A server inside another program, on a reactor in memory: its settings, its ports and its clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from twisted.internet.defer import Deferred

from bussrv.client.errors import BufferFull, BusError, NoService, Offline, ServiceError
from bussrv.client.events import Appeared, Gap, Gone, Message, Object, Request
from bussrv.embedding.client import Client
from bussrv.embedding.service import make_service
from bussrv.errors import ConfigError
from bussrv.plugin import WireFormat
from bussrv.testing.reactor import MemoryReactor
from tests.tables import each_row

T = TypeVar("T")
ANY = "tcp:0:interface=127.0.0.1"


class Program:
    """A program with a server inside."""

    def __init__(self, **settings: Any) -> None:
        self.reactor = MemoryReactor()
        self.server = make_service({name.replace("_", "-"): each for name, each in settings.items()}, self.reactor)
        self.server.startService()
        self.result(self.server.when_ready())

    def result(self, waited_for: Deferred[T], seconds: float = 0.0) -> T:
        found: list[Any] = []
        waited_for.addBoth(found.append)
        self.reactor.advance(seconds)
        (outcome,) = found
        if hasattr(outcome, "raiseException"):
            outcome.raiseException()
        answer: T = outcome
        return answer

    def client(self, **given: Any) -> Client:
        return self.result(self.server.client(**given))


@contextmanager
def program(**settings: Any) -> Iterator[Program]:
    made = Program(**settings)
    yield made
    made.result(made.server.stopService())
    assert (made.reactor.getDelayedCalls(), made.reactor.ports) == ([], {})


def test_it_opens_the_ports_that_settings_name_and_no_others() -> None:
    with program(objects=ANY, admin=ANY) as one:
        assert one.server.addresses.keys() == {"objects", "admin"}
        assert set(one.reactor.ports) == {("TCP", one.server.port(each)) for each in ("objects", "admin")}
        assert 0 not in {one.server.port("objects"), one.server.port("admin")}
    with program() as two:
        assert two.server.addresses == {}


@each_row(
    ("settings", "said"),
    [
        ({"objekts": "off"}, "settings: there is no option 'objekts'; did you mean 'objects'?"),
        ({"objects": 7.5}, "settings: objects: "),
        ({"max-sessions": "many"}, "settings: max-sessions: 'many' is not a whole number"),
    ],
)
def test_a_wrong_setting_is_an_error_with_its_name(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make_service(settings, MemoryReactor())
    assert refused.value.sentences[0].startswith(said)


def test_clients_inside_publish_subscribe_and_answer() -> None:
    with program() as one:
        publisher, subscriber = one.client(name="shop"), one.client()
        events = one.result(subscriber.subscribe("tv"))
        called: list[Any] = []
        one.result(subscriber.subscribe("+", call=called.append))
        one.result(publisher.publish("tv", b"on", type="text/plain", confirm=True))
        (message,) = events.take()
        assert isinstance(message, Message)
        assert (message.service, message.payload, message.type) == ("tv", b"on", "text/plain")
        assert called == [message]
        service = one.result(publisher.serve("sum", lambda request: str(sum(request.payload))))
        assert one.result(subscriber.request("sum", b"\1\2\3")).payload == b"6"
        assert service.handled == 1
        one.result(service.stop())
        with pytest.raises(NoService):
            one.result(subscriber.request("sum", b""))


def test_handlers_may_take_their_time_and_fail() -> None:
    with program() as one:
        provider, asker = one.client(), one.client()
        later: Deferred[str] = Deferred()

        async def handle(request: Request) -> str:
            if request.payload == b"refuse":
                raise ServiceError("sold-out", "there is no more")
            if request.payload == b"fail":
                raise KeyError("door")
            return await later

        one.result(provider.serve("shop", handle))
        answer = asker.request("shop", b"wait")
        one.reactor.advance(3)
        assert not answer.called
        later.callback("done")
        assert one.result(answer).payload == b"done"
        for payload, reason in ((b"refuse", "sold-out"), (b"fail", "service-error")):
            with pytest.raises(BusError) as refused:
                one.result(asker.request("shop", payload))
            assert refused.value.reason == reason
        with pytest.raises(TimeoutError):
            one.result(asker.request("shop", b"wait", timeout=0.0), 1.0)


def test_coroutines_iterate_over_what_comes() -> None:
    with program() as one:
        publisher, subscriber = one.client(), one.client()
        got: list[Any] = []

        async def listen() -> str:
            subscription = await subscriber.subscribe("tv")
            async for event in subscription:
                got.append(event.payload)
                if event.payload == b"off":
                    await subscription.stop()
            return "stopped"

        listening = Deferred.fromCoroutine(listen())
        for payload in (b"on", b"off", b"on"):
            one.result(publisher.publish("tv", payload, confirm=True))
        assert (one.result(listening), got) == ("stopped", [b"on", b"off"])


def test_objects_and_sessions_of_others_are_seen() -> None:
    with program() as one:
        observer, sender = one.client(), one.client()
        changes = observer.watch()
        objects = one.result(observer.objects("@note"))
        third = one.client()
        one.result(sender.send({"event": "note", "text": "hello"}))
        one.reactor.advance()
        (note,) = objects.take()
        assert isinstance(note, Object)
        assert note.metadata["text"] == "hello"
        one.result(third.close())
        one.reactor.advance()
        seen = changes.take()
        assert {Appeared("session", str(third.routing_id)), Gone("session", str(third.routing_id))} <= set(seen)
        one.result(objects.stop())


def test_a_slow_part_of_a_program_loses_messages_and_is_told() -> None:
    with program() as one:
        publisher, subscriber = one.client(), one.client()
        events = one.result(subscriber.subscribe("tv", queue=2))
        for number in range(5):
            one.result(publisher.publish("tv", b"%d" % number))
        one.reactor.advance()
        gap, *rest = events.take()
        assert gap == Gap(3, "overflow")
        assert [each.payload for each in rest if isinstance(each, Message)] == [b"3", b"4"]
        assert events.dropped == 3


def test_what_waits_for_the_server_is_bounded() -> None:
    with program() as one:
        client = one.client(most_waiting=10_000)
        one.result(client.publish("tv", b"first", confirm=True))
        # All in one turn: the server has read nothing of it yet.
        sent = [client.publish("tv", bytes(1000)) for _ in range(20)]
        one.reactor.advance()
        assert all(each.result is None for each in sent)
        with pytest.raises(BufferFull):
            one.result(client.publish("tv", bytes(10_001)))


def test_a_client_has_the_permissions_of_its_user(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rule]]\nusers = ["shop"]\nprovide = ["door"]\npublish = ["door"]\nwatch = ["door"]\n')
    users = tmp_path / "tokens"
    users.write_text("")
    users.chmod(0o600)
    with program(auth=[f"tokens:{users}"], policy=policy) as one:
        shop = one.client(user="shop")
        one.result(shop.publish("door", b"open", confirm=True))
        with pytest.raises(BusError) as refused:
            one.result(shop.subscribe("tv"))
        assert refused.value.reason == "not-allowed"
        for user, reason in (("thief", "not-allowed"), (None, "not-authenticated")):
            with pytest.raises(BusError) as refused:
                one.client(user=user)
            assert refused.value.reason == reason


def test_a_client_is_told_that_the_server_stops() -> None:
    one = Program()
    client = one.client()
    ended, events = client.when_ended(), one.result(client.subscribe("tv"))
    request = client.request("nobody", timeout=None)
    stopped, again = one.server.stopService(), one.server.stopService()
    one.result(stopped)
    assert again.called
    assert ended.called
    for waits in (request, client.publish("tv"), one.server.client(), client.when_up()):
        with pytest.raises((BusError, Offline)):
            one.result(waits)
    assert [type(each) for each in events.take()] == [Gap]
    with pytest.raises(BusError):
        events.take()


def test_a_stop_before_it_is_ready_is_a_stop() -> None:
    reactor = MemoryReactor()
    server = make_service({"objects": ANY}, reactor)
    assert server.stopService().called
    server.startService()
    ready, stopped = server.when_ready(), server.stopService()
    reactor.advance(5)
    assert stopped.called
    outcome: list[Any] = []
    ready.addBoth(outcome.append)
    assert outcome
    assert (reactor.getDelayedCalls(), reactor.ports) == ([], {})
    with pytest.raises(RuntimeError, match="starts once"):
        server.startService()


def test_a_start_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with program(objects=ANY) as one:
        before = one.reactor.getDelayedCalls(), dict(one.reactor.ports)
        busy = f"tcp:{one.server.port('objects')}:interface=127.0.0.1"
        failing = make_service({"spp": ANY, "business": busy, "admin": ANY}, one.reactor)
        with pytest.raises(ConfigError) as refused:
            failing.startService()
        assert refused.value.sentences[-1].endswith("Address already in use")
        one.reactor.advance()
        assert (one.reactor.getDelayedCalls(), one.reactor.ports) == before
        assert failing.stopService().called


def test_two_servers_in_one_process_know_nothing_of_each_other() -> None:
    with program(max_subscriptions=1) as one, program() as two:
        clients = [each.client() for each in (one, two)]
        events = [each.result(client.subscribe("tv")) for each, client in zip((one, two), clients, strict=True)]
        one.result(clients[0].publish("tv", b"on", confirm=True))
        assert [len(each.take()) for each in events] == [1, 0]
        with pytest.raises(BusError):
            one.result(clients[0].subscribe("radio"))
        two.result(clients[1].subscribe("radio"))
        assert one.server.counters["max-subscriptions"] == 1
        assert "max-subscriptions" not in two.server.counters


def test_other_settings_take_effect_or_nothing_changes() -> None:
    with program(objects=ANY) as one:
        settings = one.server.settings
        outcome = one.result(one.server.reload({**settings, "max-subscriptions": 1}))
        assert outcome is not None
        assert outcome.changed == ("max-subscriptions",)
        bad = one.result(one.server.reload({**settings, "max-subscriptions": "few"}))
        assert bad is not None
        assert bad.faults
        assert one.server.settings["max-subscriptions"] == 1
        client = one.client()
        one.result(client.subscribe("tv"))
        with pytest.raises(BusError):
            one.result(client.subscribe("radio"))


def test_a_program_that_blocks_its_reactor_keeps_its_clients() -> None:
    with program() as one:
        client = one.client()
        events = one.result(client.subscribe("tv"))
        client.publish("tv", b"on")
        # Nothing is called for an hour; then all of it is due.
        one.reactor.rightNow += 3600.0
        one.reactor.advance()
        one.reactor.advance()
        assert client.is_up
        assert [each.payload for each in events.take() if isinstance(each, Message)] == [b"on"]


def test_a_drain_by_an_operator_stops_the_server_alone() -> None:
    """There is no reactor to stop here, and the program goes on."""
    one = Program(objects=ANY, drain_seconds=5)
    client, visitor = one.client(), one.reactor.connect(one.server.port("objects"))
    one.server._server._view.drain()
    ended = client.when_ended()
    one.reactor.advance(60)
    assert ended.called
    assert not visitor.is_open
    assert one.server.stopService().called
    assert (one.reactor.getDelayedCalls(), one.reactor.ports) == ([], {})


def test_a_wire_format_of_the_program_itself_is_served() -> None:
    reactor = MemoryReactor()
    lines = WireFormat("lines", module="made_up", default_endpoint="tcp:7000", summary="made up")
    with pytest.raises(ConfigError, match="settings: there is no option 'lines'"):
        make_service({"lines": ANY}, reactor)
    server = make_service({"lines": ANY}, reactor, formats=[lines])
    with pytest.raises(ConfigError, match="settings: lines: not served: ModuleNotFound: "):
        server.startService()
    reactor.advance()
    assert (reactor.getDelayedCalls(), reactor.ports) == ([], {})


def test_settings_come_from_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is read if they name it, and they override it."""
    monkeypatch.setenv("BUSSRV_SPP", "tcp:3002:interface=127.0.0.1")
    file = tmp_path / "bussrv.toml"
    file.write_text('objects = "tcp:7890:interface=127.0.0.1"\nbusiness = "tcp:7891:interface=127.0.0.1"\n')
    with program(config=file, business="off") as one:
        assert one.server.addresses == {"objects": "127.0.0.1:7890"}
