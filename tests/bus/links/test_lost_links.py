"""The links that are remembered because they were lost, or are expected."""

from bussrv.bus.links.facts import LinkFacts
from bussrv.bus.links.lost_links import LostLinks
from bussrv.settings import Settings


def link(name: str) -> LinkFacts:
    return LinkFacts(f"s-{name}", name, "10.0.0.5:4711", False)


def names(lost: LostLinks, up: str = "") -> list[str]:
    return [each.server_id for each in lost.all(set(up))]


def test_each_server_is_there_once_with_its_last_loss() -> None:
    lost = LostLinks(Settings(), 7)
    lost.add(link("a"), "connection-lost", 8)
    lost.add(link("b"), "server-stopped", 9)
    lost.add(link("a"), "ping-timeout", 10)
    found = [(each.server_id, each.peer, each.time, each.reason) for each in lost.all(())]
    assert found == [("b", "10.0.0.5:4711", 9, "server-stopped"), ("a", "10.0.0.5:4711", 10, "ping-timeout")]
    assert [lost.forget(each) for each in ("a", "a", "c")] == [True, False, False]
    assert names(lost) == ["b"]


def test_the_oldest_is_left_out_when_there_are_too_many() -> None:
    lost = LostLinks(Settings(max_links=2), 7)
    for name in "abc":
        lost.add(link(name), "connection-lost", 8)
    assert names(lost) == ["b", "c"]


def test_an_expected_server_is_missed_when_it_has_left_its_net() -> None:
    lost = LostLinks(Settings(expect_link=("a", "b")), 7)
    lost.left_net("a", "unreachable", 8)  # It was never there.
    assert [(each.server_id, each.time, each.reason) for each in lost.all("b")] == [("a", 7, None)]
    lost.joined_net("a")
    assert names(lost, "b") == []
    lost.left_net("a", "unreachable", 9)
    lost.left_net("a", "unreachable", 10)
    assert [(each.server_id, each.time, each.reason) for each in lost.all("b")] == [("a", 9, "unreachable")]
    lost.joined_net("a")
    assert names(lost, "b") == []


def test_an_expected_server_is_missed_unless_it_is_up() -> None:
    lost = LostLinks(Settings(max_links=1, expect_link=("a", "b", "a")), 7)
    assert [(each.server_id, each.time, each.reason) for each in lost.all("b")] == [("a", 7, None)]
    lost.add(link("a"), "connection-lost", 8)
    assert [(each.server_id, each.time, each.reason) for each in lost.all("b")] == [("a", 8, "connection-lost")]
    lost.forget("a")
    assert names(lost) == ["a", "b"]
