"""What a member asks the server for, if the server refuses some of it, or is in trouble."""

from __future__ import annotations

from bussrv.client.core.inbox import Inbox
from bussrv.client.errors import BadLogin, BusError, Unsupported
from bussrv.client.events import Gap, Message, Object, Restored
from bussrv.client.settings import Login
from tests.client.core.fake_server import OWN_ID, Pair


def payloads(inbox: Inbox[Message]) -> list[bytes | str]:
    return [each.reason if isinstance(each, Gap) else each.payload for each in inbox.take_many(99)]


def test_one_that_is_restored_after_others_has_a_second_gap() -> None:
    pair = Pair()
    pair.connect()
    (inbox, _), (closed, _) = pair.subscribe("a", "c"), pair.subscribe("b")
    pair.core.provide("tv", None, lambda _: None)
    pair.exchange()
    pair.lose("silent")
    pair.server.closed_to = {"b"}
    pair.server.connect()
    pair.core.opened("hall:7890", 0.0)
    for number in range(20):
        for name in ("a", "c"):
            pair.server.publish(name, b"%s%d" % (name.encode(), number))
        output, pair.server.output = pair.server.output, b""
        pair.core.received(output, 0.0) if output else None
        pair.server.receive(b"".join(pair.core.take_output()))
    first, *taken = payloads(inbox)
    assert first == "silent"
    for name in (b"a", b"c"):
        numbers = [int(each[1:]) for each in taken if isinstance(each, bytes) and each[:1] == name]
        assert numbers == list(range(numbers[0], 20)), "once it is restored, nothing is missing"
    late = next(place for place, each in enumerate(taken) if isinstance(each, bytes) and each[:1] == b"c")
    assert late == 0 or "silent" in taken[:late], "what was missed of c is told after the first of a"
    assert closed.error is not None
    restored = [each for each in pair.states if isinstance(each, Restored)]
    assert restored == [Restored(("a", "c"), ("tv",), {"b": "not-allowed"})]


def test_a_server_that_knows_no_services_is_found_out() -> None:
    pair = Pair()
    pair.server.knows_services = False
    early, told = pair.subscribe("a")
    pair.connect()
    assert pair.core.is_up
    late, told_late = pair.subscribe("b")
    pair.exchange()
    assert (told, told_late) == ([early.error], [late.error])
    assert isinstance(early.error, Unsupported)


def test_one_that_leaves_before_it_is_refused_is_not_missed() -> None:
    pair = Pair()
    pair.connect()
    pair.server.closed_to = {"a"}
    inbox, told = pair.subscribe("a")
    pair.core.unsubscribe(inbox)
    pair.exchange()
    assert (told, pair.server.services) == ([], set())


def test_one_who_joins_what_is_granted_does_not_wait() -> None:
    pair = Pair()
    pair.connect()
    pair.subscribe("a")
    pair.exchange()
    pair.server.closed_to = {"b"}
    pair.subscribe("b")
    _, told = pair.subscribe("a")
    pair.exchange()
    assert told == [None]


def test_a_full_disk_ends_no_subscription_that_there_was() -> None:
    pair = Pair()
    pair.connect()
    inbox, _ = pair.subscribe("a", "b")
    pair.exchange()
    pair.lose()
    pair.server.has_disk = False
    pair.connect()
    assert pair.core.ending is not None
    assert pair.core.ending.reason == "journal-unavailable"
    pair.lose("journal-unavailable")
    pair.server.has_disk = True
    pair.connect()
    assert (pair.server.services, inbox.error) == ({"a", "b"}, None)
    pair.server.has_disk = False
    new, told = pair.subscribe("c")
    pair.exchange()
    assert [getattr(each, "reason", None) for each in told] == ["journal-unavailable"]
    assert (new.error, pair.core.ending) == (told[0], None)


def test_rules_that_are_refused_are_not_asked_for_again() -> None:
    pair = Pair()
    pair.connect()
    inbox, _ = pair.subscribe("a")
    pair.exchange()
    changes: Inbox[object] = Inbox()
    pair.server.refuses_all = True
    pair.core.watch(changes)
    pair.exchange()
    assert changes.error is not None
    pair.core.unsubscribe(inbox)
    pair.exchange()
    assert pair.server.services == {"a"}, "the server may refuse to forget, too"
    pair.server.refuses_all = False
    _, told = pair.subscribe("b")
    pair.exchange()
    assert (told, pair.server.services) == ([None], {"b"})


def test_a_member_says_who_it_is_and_takes_its_old_id() -> None:
    secrets = iter(["old", "new"])
    pair = Pair(login=Login("ann", lambda: next(secrets), name="lamp"), routing_ids=("lamps",))
    for _ in range(2):
        pair.connect()
        pair.lose()
    first, second = ({key: value for key, value in each.items() if key != "id"} for each in pair.server.joins)
    said = {"event": "routing/subscribe", "user": "ann", "secret": "old", "name": "lamp", "routing-ids": ["lamps"]}
    said["gaps"] = True
    rules = ["@services/reply", "@error"]
    assert first == {**said, "services": [], "subscriptions": rules}
    assert second == {**first, "secret": "new", "routing-id": OWN_ID}


def test_a_business_client_says_the_same_in_its_own_words() -> None:
    pair = Pair("business")
    pair.subscribe("a")
    for _ in range(2):
        pair.connect()
        pair.lose()
    first, second = ({key: value for key, value in each.items() if key != "id"} for each in pair.server.joins)
    assert first == {
        "event": "client/register",
        "services": ["a"],
        "gaps": True,
        "receive": "all",
        "subscribe": "none",
    }
    assert second == {**first, "unique-routing-id": OWN_ID}


def test_unchecked_logins_are_tried_again_and_bad_ones_not() -> None:
    pair = Pair(login=Login("ann", "sesame"))
    pair.server.busy = 2
    pair.connect()
    assert (pair.core.is_up, len(pair.server.joins)) == (True, 3)
    pair.lose()
    pair.server.bad_login = True
    pair.connect()
    assert isinstance(pair.core.ending, BadLogin)
    assert len(pair.server.joins) == 4


def test_an_observer_whose_rules_are_refused_is_told() -> None:
    pair = Pair()
    pair.connect()
    pair.server.refuses_all = True
    told: list[BusError | None] = []
    inbox: Inbox[Object] = Inbox()
    pair.core.observe(inbox, ["*"], told.append)
    pair.exchange()
    assert told == [inbox.error]
    assert inbox.error is not None


def test_a_publication_without_a_sender_is_taken_for_no_other() -> None:
    """A provider of a single service need not name it. Only who has a single subscription knows which one it is."""
    pair = Pair()
    pair.connect()
    unnamed = b'{"type":"text/plain","size":2}\0hi'
    (bank, _) = pair.subscribe("bank")
    pair.exchange()
    pair.core.received(unnamed, 0.0)
    assert bank.take_many(9) == [Message("bank", b"hi", "text/plain", unnamed[:30])]
    (other, _) = pair.subscribe("other")
    pair.core.received(unnamed, 0.0)  # the server does not know of it yet, so this may be of either
    pair.exchange()
    pair.core.received(unnamed, 0.0)
    for inbox in (bank, other):
        assert inbox.take_many(9) == [Gap(None, "no-sender")]
    pair.core.unsubscribe(other)
    pair.core.received(unnamed, 0.0)
    assert bank.take_many(9) == [Gap(None, "no-sender")]
