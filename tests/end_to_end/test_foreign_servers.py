"""Links with servers of another make, which speak the deployed dialect: here, one on a plain socket."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.testing.server import RunningServer
from bussrv.wire import spp
from tests.end_to_end.conftest import Start
from tests.end_to_end.foreign import Fields, ForeignServer
from tests.end_to_end.journals import events_of, records
from tests.end_to_end.linked import SOON, Member, assert_journal_is_closed, tracebacks
from tests.size import FULL

SILENT = ["@routing/*", "@services/*", "@ping", "@pong"]
"""What services of the dialect subscribe to, instead of registering."""


WAYS = (("dialed", "all"), ("dials", ["*"]), ("dialed", ["*"]), ("dials", "all"))
"""Who dials, and what the foreign server subscribes to: each at any size, each with each at full size."""


@pytest.fixture(params=WAYS if FULL else WAYS[:2], ids=lambda way: f"{way[0]}-{'all' if way[1] == 'all' else 'list'}")
def way(request: pytest.FixtureRequest) -> tuple[str, str | list[str]]:
    found: tuple[str, str | list[str]] = request.param
    return found


@pytest.fixture
def direction(way: tuple[str, str | list[str]]) -> str:
    return way[0]


@pytest.fixture
def foreign(way: tuple[str, str | list[str]]) -> Iterator[ForeignServer]:
    with ForeignServer("foreign", way[1]) as server:
        yield server


@pytest.fixture
def server(start: Start, foreign: ForeignServer, direction: str) -> RunningServer:
    """A server that is linked with the foreign one."""
    with_route = foreign.subscriptions == "all"
    link = [f"--link=tcp:127.0.0.1:{foreign.port}"] if direction == "dialed" else []
    running = start("--server-id", "hall", *SOON, *link)
    joined = foreign.accept(with_route) if direction == "dialed" else foreign.dial(running.port("objects"), with_route)
    assert joined == "hall"
    wait_for_link(running, "up")
    return running


def wait_for_link(server: RunningServer, state: str, count: int = 1) -> None:
    def is_so(line: str) -> bool:
        return "link to foreign at" in line and f" is {state}" in line

    while sum(map(is_so, server.lines)) < count:
        server.next_line()


@pytest.fixture
def members(server: RunningServer) -> Iterator[list[Member]]:
    """Members of the server, of both vocabularies of Object System; the foreign server was told of them."""
    with ObjectsClient(port=server.port("objects")) as plain, ObjectsClient(port=server.port("objects")) as deployed:
        plain.subscribe()
        deployed.subscribe(subscriptions=["*"])
        yield [Member(plain), Member(deployed)]


def of(client: str) -> Any:
    return lambda each: each.get("route", [None])[0] == client and each.get("event") == "end"


def test_objects_of_a_foreign_server_reach_all_once_in_order(
    server: RunningServer, foreign: ForeignServer, members: list[Member]
) -> None:
    for number in range(200):
        fields: Fields = {"type": "text/plain", "number": number}
        if number % 3:
            fields["id"] = f"far-{number}"
        foreign.pass_on("far", fields, b"%d" % number, own=number % 2 == 0)
        if number % 5 == 0 and "id" in fields:
            # It came to the foreign server another way, too.
            foreign.send({**fields, "route": ["far", "foreign", "other", "foreign"]}, b"%d" % number)
    foreign.pass_on("far", {"event": "end"})
    for member in members:
        member.hear(of("far"))
        contents = [each for each in member.heard if each.payload]
        assert [each.metadata["number"] for each in contents] == list(range(200))
        assert [each.payload for each in contents] == [b"%d" % number for number in range(200)]
        assert {tuple(each.metadata["route"]) for each in contents} == {("far", "foreign", "hall")}
        assert all("id" in each.metadata for each in contents)
    assert server.stop() == 0
    assert tracebacks(server) == []


def test_a_foreign_server_gets_each_object_once_with_its_route(
    server: RunningServer, foreign: ForeignServer, members: list[Member]
) -> None:
    for number in range(200):
        fields: Fields = {"type": "text/plain", "number": number, "weight": 1.50}
        members[number % 2].client.send({**fields, "id": f"{number}"} if number % 4 < 2 else fields, b"%d" % number)
    for member in members:
        member.client.send({"event": "end"})
    foreign.pass_on("far", {"type": "text/plain"}, b"not for the one who says it")
    for member in members:
        foreign.hear(of(member.id))
    contents = [(fields, payload) for fields, payload in foreign.heard if payload]
    for parity, member in enumerate(members):
        own = [(fields, payload) for fields, payload in contents if fields["route"] == [member.id, "hall"]]
        assert [fields["number"] for fields, _ in own] == list(range(parity, 200, 2))
        assert [payload for _, payload in own] == [b"%d" % number for number in range(parity, 200, 2)]
        assert all("id" in fields for fields, _ in own)
    assert len(contents) == 200
    assert sum(fields["event"] == "routing/subscribe" for fields, _ in foreign.heard if "event" in fields) == 1


def test_members_of_each_side_are_known_on_the_other(
    server: RunningServer, foreign: ForeignServer, members: list[Member]
) -> None:
    for member in members:
        told, _ = foreign.hear(lambda each, member=member: each.get("routing-id") == member.id)
        assert told["event"] == "routing/subscribe/notification"
        assert told["route"] == ["hall"]
    foreign.send(
        {"event": "routing/subscribe/notification", "routing-id": "far", "routing-ids": [], "route": ["foreign"]}
    )
    foreign.send(
        {"event": "routing/subscribe/notification", "routing-id": "farther", "route": ["far-server", "foreign"]}
    )
    for client in ("far", "farther"):
        members[0].hear_of("routing/subscribe/notify", client)
        members[1].hear_of("routing/subscribe/notification", client)
        members[0].client.send({"event": "hello", "to": client})
        greeting, _ = foreign.hear(lambda each, client=client: each.get("to") == client)
        assert greeting["route"] == [members[0].id, "hall"]
    foreign.pass_on("far", {"event": "hello", "to": members[1].id})
    members[1].hear(lambda each: each.get("event") == "hello")
    foreign.send({"event": "routing/disconnect", "routing-id": "far", "route": ["foreign"]})
    members[0].hear_of("routing/disconnect", "far")
    foreign.hang_up()
    members[1].hear_of("routing/disconnect", "farther")
    members[1].hear_of("routing/disconnect", "foreign")
    assert not any(each.metadata.get("event") == "hello" for each in members[0].heard)


def test_what_servers_tell_servers_is_never_passed_on_to_members(
    server: RunningServer, foreign: ForeignServer, members: list[Member]
) -> None:
    announcement = {"event": "routing/announcement/neighbors"}
    foreign.send({**announcement, "neighbors": ["hall", "other"], "route": ["foreign"]})
    foreign.send({**announcement, "neighbors": [{"routing-id": "hall", "role": "server"}], "id": "n1"})
    foreign.send({**announcement, "neighbors": [], "route": ["other", "foreign"]})
    foreign.send({**announcement, "neighbors": 7})
    foreign.pass_on("far", {"event": "end"})
    for member in members:
        member.hear(of("far"))
        events = {str(each.metadata.get("event")) for each in member.heard}
        assert not any("announcement" in event for event in events)
        assert events <= {
            "routing/subscribe/notify",
            "routing/subscribe/notification",
            "routing/subscribe/reply",
            "end",
        }
    members[0].client.send({"event": "end"})
    foreign.hear(of(members[0].id))
    assert not any(fields["event"] == "error" for fields, _ in foreign.heard)


@pytest.mark.parametrize("notified", [True, False], ids=["announced", "unannounced"])
def test_a_silent_service_of_a_foreign_server_answers(
    server: RunningServer, foreign: ForeignServer, notified: bool
) -> None:
    if notified:
        foreign.send({"event": "routing/subscribe/notification", "routing-id": "clock", "route": ["foreign"]})
    with ObjectsClient(port=server.port("objects")) as client:
        client.subscribe()
        for number in range(3):
            client.send({"event": "services/request", "name": "time", "id": f"r{number}"})
            request, _ = foreign.hear(lambda each, number=number: each.get("id") == f"r{number}")
            assert request["event"] == "services/request"
            assert request["route"] == [client.routing_id, "hall"]
            reply = {"event": "services/reply", "name": "time", "in-reply-to": request["id"], "to": request["route"][0]}
            foreign.pass_on("clock", reply, b"12:0%d" % number, own=number % 2 == 0)
            answer = client.wait_for(lambda each, number=number: each.metadata.get("in-reply-to") == f"r{number}")
            assert (answer.metadata["event"], answer.payload) == ("services/reply", b"12:0%d" % number)
            assert answer.metadata["route"] == ["clock", "foreign", "hall"]


def test_a_client_of_a_foreign_server_asks_a_service_here(
    server: RunningServer, foreign: ForeignServer, members: list[Member]
) -> None:
    registered, silent = members
    registered.client.register("door")
    told, _ = foreign.hear(lambda each: each.get("event") == "services/register" and each.get("name") == "door")
    assert told["route"][-1] == "hall"
    silent.client.subscribe(subscriptions=SILENT)
    for name, provider in (("door", registered), ("window", silent)):
        foreign.pass_on("far", {"event": "services/request", "name": name, "id": f"ask-{name}"})
        request = provider.hear(lambda each, name=name: each.get("id") == f"ask-{name}")
        assert request.metadata["route"][0] == "far"
        provider.client.reply(request, b"open")
        reply, payload = foreign.hear(lambda each, name=name: each.get("in-reply-to") == f"ask-{name}")
        assert (reply["event"], reply["to"], payload) == ("services/reply", "far", b"open")
        assert reply["route"] == [provider.id, "hall"]
    assert sum(fields.get("in-reply-to") == "ask-door" for fields, _ in foreign.heard) == 1


def test_services_of_a_foreign_server_are_offered_and_subscribed(server: RunningServer, foreign: ForeignServer) -> None:
    foreign.send({"event": "routing/subscribe/notification", "routing-id": "camera", "route": ["foreign"]})
    foreign.pass_on("camera", {"event": "services/register", "name": "picture"})
    with SppClient(port=server.port("spp")) as screen, ObjectsClient(port=server.port("objects")) as client:
        screen.wait_for(lambda event: event == spp.Offer("picture"))
        screen.subscribe("picture")
        screen.wait_for(lambda event: event == spp.Info("picture", b""))
        foreign.pass_on("camera", {"type": "image/png", "sender": "picture"}, b"\x89PNG")
        screen.wait_for(lambda event: event == spp.Info("picture", b"\x89PNG"))
        client.subscribe()
        (found,) = client.discover("picture")
        assert (found["routing-id"], found["protocol"]) == ("camera", "objects")
        foreign.hang_up()
        screen.wait_for(lambda event: event == spp.Removed("picture"))


def test_a_ping_of_a_foreign_server_is_answered(server: RunningServer, foreign: ForeignServer) -> None:
    foreign.send({"event": "ping", "id": "p1", "route": ["foreign"]})
    foreign.send({"event": "ping", "id": "p2"})
    foreign.pass_on("far", {"event": "ping", "id": "p3", "to": "hall"})
    for number in ("p1", "p2", "p3"):
        pong, _ = foreign.hear(lambda each, number=number: each.get("in-reply-to") == number)
        assert (pong["event"], pong["routing-id"]) == ("pong", "hall")


def test_the_journal_tells_of_the_link_and_of_what_was_behind_it(
    server: RunningServer, foreign: ForeignServer, journal: Path
) -> None:
    foreign.send({"event": "routing/subscribe/notification", "routing-id": "far", "route": ["foreign"]})
    with ObjectsClient(port=server.port("objects")) as client:
        client.subscribe()
        foreign.pass_on("far", {"event": "end"})
        client.wait_for(lambda each: of("far")(each.metadata))
        foreign.hang_up()
        client.wait_for(lambda each: each.metadata.get("routing-id") == "far")
    assert server.stop() == 0
    assert_journal_is_closed([record.event for record in records(journal)])
    (far,) = [each for each in events_of(journal, ev.SessionOpened) if getattr(each, "home", None) == "foreign"]
    (closed,) = [each for each in events_of(journal, ev.SessionClosed) if each.session == far.session]
    assert (far.routing_id, closed.reason) == ("far", "link-lost")
    assert [each.routing_id for each in events_of(journal, ev.LinkUp)] == ["foreign"]
    assert [each.routing_id for each in events_of(journal, ev.LinkDown)] == ["foreign"]


def test_a_foreign_server_that_hangs_up_is_dialed_again(start: Start, journal: Path) -> None:
    with ForeignServer("foreign", "all") as foreign:
        server = start("--server-id", "hall", *SOON, f"--link=tcp:127.0.0.1:{foreign.port}")
        for number in range(3):
            foreign.accept()
            wait_for_link(server, "up", number + 1)
            foreign.hang_up()
            wait_for_link(server, "down", number + 1)
        assert server.stop() == 0
    assert tracebacks(server) == []
    assert_journal_is_closed([record.event for record in records(journal)])


def test_a_foreign_server_that_fails_to_answer_is_dialed_again(start: Start, journal: Path) -> None:
    with ForeignServer("foreign", "all") as foreign:
        server = start("--server-id", "hall", *SOON, f"--link=tcp:127.0.0.1:{foreign.port}")
        foreign.accept_and_hang_up()
        foreign.accept_and_hang_up(b'{"event": "routing/subscribe/reply", "routing-id": "hall"}\0')
        foreign.accept_and_hang_up(b'{"event": "error", "reason": "go-away", "message": "not today"}\0')
        foreign.accept_and_hang_up(b"HTTP/1.1 400 Bad Request\r\n\r\n\0")
        foreign.accept()
        wait_for_link(server, "up")
        assert server.stop() == 0
    assert any("link refused by the other server: not today" in line for line in server.lines)
    assert tracebacks(server) == []
    assert_journal_is_closed([record.event for record in records(journal)])
