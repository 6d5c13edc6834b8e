"""How links come about, between servers that dial each other, or are not there yet; and whom a server believes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from bussrv import events as ev
from bussrv.client.objects import Object, ObjectsClient
from bussrv.testing.server import RunningServer
from tests.end_to_end.cables import reserve_port
from tests.end_to_end.conftest import Start
from tests.end_to_end.journals import events_of, records
from tests.end_to_end.linked import SOON, LinkedServers, assert_journal_is_closed, tracebacks
from tests.forked import ForkedServer


@contextmanager
def two_servers_that_dial_each_other(directory: Path) -> Iterator[tuple[RunningServer, RunningServer]]:
    with ExitStack() as stack:
        ports = {name: stack.enter_context(reserve_port()).getsockname()[1] for name in "ab"}

        def start(name: str, other: str) -> RunningServer:
            options = ["--server-id", name, "--objects", str(ports[name]), f"--link=tcp:127.0.0.1:{ports[other]}"]
            return ForkedServer(directory / name, [*options, *SOON])

        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(start, "ab", "ba")
        yield stack.enter_context(first), stack.enter_context(second)


def neighbors(client: ObjectsClient, server: str) -> list[str]:
    client.send({"event": "routing/neighbors", "to": server, "id": "neighbors"})
    reply = client.wait_for(lambda each: each.metadata.get("in-reply-to") == "neighbors")
    return list(reply.metadata["neighbors"])


def contents(client: ObjectsClient, sender: ObjectsClient) -> list[bytes]:
    """What is heard until ``sender`` says that it is over. A link that gives way just then loses that word."""
    heard: list[Object] = []
    while True:
        sender.send({"event": "over"})
        with suppress(TimeoutError):
            while not heard or heard[-1].metadata.get("event") != "over":
                heard.append(client.receive(timeout=1))
            return [each.payload for each in heard if each.payload]


def test_of_two_servers_that_dial_each_other_one_link_stays(tmp_path: Path) -> None:
    with two_servers_that_dial_each_other(tmp_path) as (a, b):
        with ObjectsClient(port=a.port("objects")) as here, ObjectsClient(port=b.port("objects")) as there:
            here.subscribe(routing_id="here")
            there.subscribe(routing_id="there")
            # Whichever link stands first, it may give way to the other one.
            while not (neighbors(here, "a") == ["b"] and neighbors(there, "b") == ["a"]):
                pass
            for number in range(100):
                here.send({"type": "text/plain"}, b"%d" % number)
            heard = contents(there, here)
            assert len(set(heard)) == len(heard)
        assert a.stop() == 0
        assert b.stop() == 0
        for name, server in (("a", a), ("b", b)):
            assert_journal_is_closed([record.event for record in records(tmp_path / name)])
            assert tracebacks(server) == []
            ups = len(events_of(tmp_path / name, ev.LinkUp))
            assert 1 <= ups <= 2


def test_a_server_that_is_not_there_yet_is_dialed_until_it_is(tmp_path: Path) -> None:
    with ExitStack() as stack:
        held = stack.enter_context(reserve_port())
        port = held.getsockname()[1]
        options = ["--server-id", "early", f"--link=tcp:127.0.0.1:{port}", "--max-link-delay", "0.2"]
        early = stack.enter_context(ForkedServer(tmp_path / "early", options))
        for _ in range(3):
            while ": dialing again in " not in early.next_line():
                pass
        late = stack.enter_context(
            ForkedServer(tmp_path / "late", ["--server-id", "late", "--objects", str(port), *SOON])
        )
        while "link to late at" not in early.next_line():
            pass
        while "link to early at" not in late.next_line():
            pass
        assert early.stop() == 0
        assert late.stop() == 0
        assert tracebacks(early) == []
        assert [each.routing_id for each in events_of(tmp_path / "early", ev.LinkUp)] == ["late"]
        assert_journal_is_closed([record.event for record in records(tmp_path / "early")])


def test_a_server_does_not_link_to_itself(tmp_path: Path) -> None:
    with ExitStack() as stack:
        port = stack.enter_context(reserve_port()).getsockname()[1]
        options = ["--server-id", "a", "--objects", str(port), f"--link=tcp:127.0.0.1:{port}", *SOON]
        server = stack.enter_context(ForkedServer(tmp_path / "a", options))
        while "both servers of the link have the routing id a" not in server.next_line():
            pass
        with ObjectsClient(port=port) as client:
            client.subscribe()
            assert neighbors(client, "a") == []
        assert server.stop() == 0
        assert tracebacks(server) == []
        assert events_of(tmp_path / "a", ev.LinkUp) == []


def test_a_linked_server_is_believed_where_objects_come_from(start: Start) -> None:
    server = start("--server-id", "hall", "--link-allow", "127.0.0.1")
    port = server.port("objects")
    with ObjectsClient(port=port) as liar, ObjectsClient(port=port) as member:
        member.subscribe()
        assert liar.subscribe(role="server", routing_id="liar", subscriptions="all")["routing-id"] == "liar"
        assert member.wait_for(lambda each: each.metadata.get("routing-id") == "liar").metadata["role"] == "server"
        long = [f"hop{number}" for number in range(30)]
        for route, seen in (
            (["king"], ["king", "liar", "hall"]),
            (["king", "liar"], ["king", "liar", "hall"]),
            (["king", "castle", "liar"], ["king", "castle", "liar", "hall"]),
            ([member.routing_id, "liar"], [member.routing_id, "liar", "hall"]),
            (["liar"], ["liar", "hall"]),
            (["king", "hall", "liar"], None),
            ([*long, "liar"], None),
            ("king", None),
            ([7], None),
            ([], ["liar", "hall"]),
        ):
            liar.send({"event": "decree", "route": route})
            if seen is not None:
                decree = member.wait_for(lambda each: each.metadata.get("event") == "decree")
                assert decree.metadata["route"] == seen
        liar.send({"event": "over", "route": ["king"]})
        member.wait_for(lambda each: each.metadata.get("event") == "over")
    assert server.stop() == 0
    assert tracebacks(server) == []


def test_links_that_are_cut_while_they_are_made_leave_no_trace(tmp_path: Path) -> None:
    with LinkedServers(tmp_path, ("ab",), SOON) as servers:
        for _ in range(5):
            servers.cables["ab"].plug(servers["b"].addresses["objects"])
            servers.cables["ab"].unplug()
        servers.plug()
        servers.wait_until_all_is_known()
        servers.part()
        servers.stop()
        for name in servers.names:
            assert_journal_is_closed(servers.journal(name))
            assert tracebacks(servers[name]) == []
