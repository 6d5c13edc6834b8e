"""Links that break, and servers that die: what is behind them is forgotten, and found again."""

from itertools import combinations
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.client.objects import BusError
from bussrv.client.spp import SppClient
from bussrv.wire import spp
from tests.end_to_end.linked import SOON, LinkedServers, Member, assert_journal_is_closed, tracebacks

TRIANGLE = ("ab", "bc", "ca")
CHAIN = ("ab", "bc")


def send_numbered(member: Member, numbers: range) -> None:
    for number in numbers:
        member.client.send({"type": "text/plain"}, b"%d" % number)


def said(member: Member, sender: Member) -> list[int]:
    return [int(payload) for payload in member.payloads(sender.id)]


def closed_far(events: list[ev.Event], routing_id: str) -> list[str | None]:
    return [each.reason for each in events if isinstance(each, ev.SessionClosed) and each.routing_id == routing_id]


def assert_all_is_well_at_the_end(servers: LinkedServers) -> None:
    servers.part()
    servers.stop()
    for name in servers.names:
        assert_journal_is_closed(servers.journal(name))
        assert tracebacks(servers[name]) == []


def test_in_a_triangle_a_link_may_break(tmp_path: Path) -> None:
    with LinkedServers(tmp_path, TRIANGLE, SOON) as servers:
        servers.plug()
        servers.wait_until_all_is_known()
        publisher = servers.join("a")
        publisher.client.register("numbers")
        servers.wait_for_service("numbers")
        members = [servers.join(name) for name in servers.names]

        send_numbered(publisher, range(1, 101))
        servers.cables["ab"].unplug()
        send_numbered(publisher, range(101, 201))
        servers.wait_for_link("ab", "down")
        send_numbered(publisher, range(201, 301))
        (found,) = members[1].client.discover("numbers")
        assert found["routing-id"] == publisher.id
        publisher.client.send({"event": "hello", "to": members[1].id})
        assert members[1].hear(lambda each: each.get("event") == "hello").metadata["route"][1:] == ["a", "c", "b"]
        members[1].client.send({"event": "services/request", "name": "numbers", "id": "over-c"})
        asked = publisher.hear(lambda each: each.get("id") == "over-c")
        assert asked.metadata["route"] == [members[1].id, "b", "c", "a"]
        publisher.client.reply(asked)
        assert members[1].hear(lambda each: each.get("in-reply-to") == "over-c").metadata["event"] == "services/reply"

        servers.plug("ab")
        send_numbered(publisher, range(301, 401))
        servers.settle((publisher, *members))
        for member in members:
            numbers = said(member, publisher)
            assert len(set(numbers)) == len(numbers)
            assert sorted(numbers) == numbers
            # Only what was on its way when the link broke may be missing, and only behind that link.
            assert set(range(1, 401)) - set(numbers) <= (set(range(1, 201)) if member is members[1] else set())
        for watcher in servers.watchers.values():
            gone = watcher.announced("routing/disconnect")
            assert set(gone) <= set(servers.names)
        assert_all_is_well_at_the_end(servers)
        assert len(closed_far(servers.journal("b"), publisher.id)) == 1


def test_in_a_chain_what_a_broken_link_cut_off_returns(tmp_path: Path) -> None:
    with LinkedServers(tmp_path, CHAIN, SOON) as servers:
        servers.plug()
        servers.wait_until_all_is_known()
        provider = servers.join("c")
        provider.client.register("door")
        office = servers.join_business("b")
        servers.wait_for_service("door")
        asker, far_watcher = servers.watchers["a"], servers.watchers["c"]
        with SppClient(port=servers["a"].port("spp")) as screen:
            screen.wait_for(lambda event: event == spp.Offer("door"))
            before = len(asker.heard), len(far_watcher.heard)
            servers.unplug("ab")
            behind = ["watcher-b", "watcher-c", provider.id, office.id]
            asker.hear_that_all_left([*behind, "b", "c"], before[0])
            far_watcher.hear_that_all_left(["watcher-a", "a"], before[1])
            screen.wait_for(lambda event: event == spp.Removed("door"))
            assert asker.client.discover("door") == []
            with pytest.raises(BusError, match="nobody provides the service 'door'"):
                asker.client.request("door")

            before = len(asker.heard), len(far_watcher.heard)
            servers.plug("ab")
            asker.hear_that_all_joined([*behind, "b", "c"], before[0])
            far_watcher.hear_that_all_joined(["watcher-a", "a"], before[1])
            screen.wait_for(lambda event: event == spp.Offer("door"))
        (found,) = asker.client.discover("door")
        assert found["routing-id"] == provider.id
        provider.client.send({"event": "hello", "to": asker.id})
        asker.hear(lambda each: each.get("event") == "hello")
        assert_all_is_well_at_the_end(servers)
        of_a, of_c = servers.journal("a"), servers.journal("c")
        assert closed_far(of_a, provider.id)[0] == "link-lost"
        assert closed_far(of_a, office.id)[0] == "link-lost"
        assert closed_far(of_c, "watcher-a")[0] == "unreachable"
        downs = [each.routing_id for each in of_a if isinstance(each, ev.LinkDown)]
        assert downs == ["b", "b"]


def test_after_a_link_flapped_everything_is_known_once(tmp_path: Path) -> None:
    with LinkedServers(tmp_path, CHAIN, SOON) as servers:
        servers.plug()
        servers.wait_until_all_is_known()
        providers = {f"door-{name}": servers.join(name) for name in servers.names}
        for door, provider in providers.items():
            provider.client.register(door)
        for number in range(10):
            servers.cables["ab"].unplug()
            if number % 2:
                servers.wait_for_link("ab", "down")
            servers.cables["ab"].plug(servers["b"].addresses["objects"])
            # Now and then it breaks again when only one end, either of them, has noticed that it is up, or neither.
            end, other = ("ab", "ba")[number % 3 == 0]
            while servers.next_about(end, other) != "up":
                pass
        servers.part()
        servers.plug()
        for door in providers:
            servers.wait_for_service(door)
        assert_all_know_each(servers, providers)
        assert_all_is_well_at_the_end(servers)
        for end, other in ("ab", "ba"):
            ups = [each for each in servers.journal(end) if isinstance(each, ev.LinkUp) and each.routing_id == other]
            assert 5 <= len(ups) <= 12


def assert_all_know_each(servers: LinkedServers, providers: dict[str, Member]) -> None:
    """Every one provides a service that every one finds once, and all of them can be written to."""
    ids = {door: provider.id for door, provider in providers.items()}
    for member in providers.values():
        found = [(each["name"], each["routing-id"]) for each in member.client.discover()]
        assert sorted(found) == sorted(ids.items())
        for recipient in ids.values():
            member.client.send({"event": "hello", "to": recipient})
    servers.settle(providers.values())
    for member in providers.values():
        greeted = [each.metadata["route"][0] for each in member.heard if each.metadata.get("event") == "hello"]
        assert sorted(greeted) == sorted(ids.values())


def test_a_flapping_link_of_a_diamond_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with LinkedServers(tmp_path, ("ab", "ac", "bd", "cd"), SOON) as servers:
        servers.plug()
        servers.wait_until_all_is_known()
        members = [servers.join(name) for name in servers.names]
        sent = 0
        for number in range(4):
            for state in ("down", "up"):
                (servers.unplug if state == "down" else servers.plug)("bd")
                for member in members:
                    send_numbered(member, range(sent, sent + 50))
                sent += 50
            if number == 2:
                # Half of what was said is under way.
                servers.cables["bd"].unplug()
                servers.wait_for_link("bd", "down")
                servers.plug("bd")
        servers.settle(members)
        for listener in members:
            for speaker in members:
                numbers = said(listener, speaker)
                assert sorted(numbers) == list(range(sent)), f"{speaker.id} to {listener.id}"
        assert_all_is_well_at_the_end(servers)


def test_a_server_that_was_killed_comes_back_and_is_linked_again(tmp_path: Path) -> None:
    with LinkedServers(tmp_path, TRIANGLE, SOON) as servers:
        servers.plug()
        servers.wait_until_all_is_known()
        provider = servers.join("b")
        provider.client.register("door")
        servers.wait_for_service("door")
        before = {name: len(servers.watchers[name].heard) for name in "ac"}
        servers.cables["ab"].unplug()
        servers["b"].process.kill()
        servers["b"].wait()
        for name in "ac":
            servers.watchers[name].hear_that_all_left([provider.id, "watcher-b", "b"], before[name])
            assert servers.watchers[name].client.discover("door") == []
        assert servers.next_about("a", "b") == "down"
        assert servers.next_about("c", "b") == "down"

        servers.start_again("b")
        servers.plug("ab")
        servers.wait_for_link("bc", "up")
        servers.rejoin("b")
        again = servers.join("b")
        again.client.register("door")
        servers.wait_for_service("door")
        for name in "ac":
            (found,) = servers.watchers[name].client.discover("door")
            assert found["routing-id"] == again.id
            servers.watchers[name].client.send({"event": "hello", "to": again.id})
            again.hear(lambda each, name=name: each.get("event") == "hello" and each["route"][1] == name)
        assert_all_is_well_at_the_end(servers)
        assert closed_far(servers.journal("a"), provider.id) in (["link-lost"], ["unreachable"])
        assert closed_far(servers.journal("b"), provider.id) == ["server-crashed"]
        assert "server-crashed" in closed_far(servers.journal("b"), "watcher-a")


def test_what_overtakes_the_best_route_is_a_publication_too(tmp_path: Path) -> None:
    with LinkedServers(tmp_path, TRIANGLE, SOON) as servers:
        servers.plug()
        servers.wait_until_all_is_known()
        publisher, member = servers.join("b"), servers.join("a")
        servers.cables["ab"].hold()
        publisher.client.register("tv")
        publisher.client.send({"type": "text/plain", "sender": "tv"}, b"on")
        heard = member.hear(lambda each: each.get("sender") == "tv")
        assert heard.metadata["route"] == [publisher.id, "b", "c", "a"]
        servers.cables["ab"].let_go()
        servers.wait_for_service("tv")
        servers.flush()
        with SppClient(port=servers["a"].port("spp")) as screen:
            screen.subscribe("tv")
            assert screen.wait_for(lambda event: isinstance(event, spp.Info)) == spp.Info("tv", b"on")


def test_servers_that_stop_all_at_once_close_every_session(tmp_path: Path) -> None:
    # The more ways there are, the more often one is found anew while the others go.
    with LinkedServers(tmp_path, [f"{a}{b}" for a, b in combinations("abcde", 2)]) as servers:
        servers.plug()
        servers.wait_until_all_is_known()
        servers.stop()
        for name in servers.names:
            assert_journal_is_closed(servers.journal(name))


def test_a_request_that_no_server_takes_is_refused_at_once(tmp_path: Path) -> None:
    with LinkedServers(tmp_path, CHAIN) as servers:
        servers.plug()
        servers.wait_until_all_is_known()
        # Whoever listens to everything may be a service that never registered.
        for name in "cb":
            servers.watchers[name].client.close()
            servers.watchers["a"].hear_of("routing/disconnect", servers.watchers[name].id)
        with pytest.raises(BusError) as refused:
            servers.watchers["a"].client.request("nothing of the kind")
        assert refused.value.reason == "no-such-service"
