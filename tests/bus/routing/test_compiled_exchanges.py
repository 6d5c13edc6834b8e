"""The compiled module reads the same of requests and replies as the reader and the plain router."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.bus.requests.records import key_of
from bussrv.bus.routing.object_ids import ObjectIds
from bussrv.compiled import SPEEDUPS
from bussrv.wire.forwarded import route_ending, with_route
from bussrv.wire.objects import MAX_METADATA, MAX_NESTING, MAX_PAYLOAD, NUL, BusObject, ObjectReader, encode
from tests.bus.routing.test_batch import InTurns
from tests.formats.network import Member, drain

pytestmark = pytest.mark.skipif(SPEEDUPS is None, reason="the compiled module is not there, or is switched off")

LIMITS = (MAX_METADATA, MAX_PAYLOAD, MAX_NESTING)
ROUTE = b'["c1","hall"]'
IDS = ObjectIds("prefix-")

KEYS = ('"event"', '"name"', '"id"', '"type"', '"in-reply-to"', '"to"', '"x"')
ODD_KEYS = ('"service"', '"sender"', '"natures"', '"route"', '"\\u0069d"', '"\u00e9"', "7", '"size"')
VALUES = (
    '"tv"',
    '"a"',
    '"b"',
    '"text/plain"',
    '""',
    '"\u00e9\U0001f600"',
    '"' + "i" * 120 + '"',
    '"' + "\u00e9" * 60 + '"',
)
ODD_VALUES = (
    *('"a:b"', '"\\u0061"', "null", "1", "1.5", "[1]", '{"id":1}', '["a"]', "true", '"', "-", ""),
    '"' + "i" * 121 + '"',
)
EVENTS = ('"services/request"', '"services/reply"')


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Objects that are mostly plain requests and replies; the last one is cut, perhaps."""
    said = b""
    for _ in range(draw(st.integers(1, 4))):
        is_odd = draw(st.integers(0, 3)) == 0
        event = draw(st.sampled_from(EVENTS))
        usual = [("id", '"a"'), ("name", '"tv"')] if "request" in event else [("in-reply-to", '"a"')]
        members = [("event", event), *usual] if not is_odd or draw(st.booleans()) else []
        pairs = [f'"{key}":{draw(st.sampled_from(VALUES)) if key != "event" else value}' for key, value in members]
        further = draw(st.lists(st.sampled_from(KEYS + ODD_KEYS if is_odd else KEYS[3:4] + KEYS[5:]), max_size=2))
        values = st.sampled_from((*VALUES, *ODD_VALUES, *EVENTS) if is_odd else VALUES)
        pairs += [f"{key}:{draw(values)}" for key in further]
        payload = draw(st.binary(max_size=4))
        pairs += [f'"size":{len(payload)}'] if payload or draw(st.booleans()) else []
        order = draw(st.permutations(pairs))
        blank = draw(st.sampled_from(("", "", "", " ", "\n")))
        said += ("{" + f"{blank},{blank}".join(order) + blank * is_odd + "}").encode() + NUL + payload
    return said[: draw(st.integers(0, len(said)))] if draw(st.integers(0, 3)) == 0 else said


@given(streams())
def test_what_is_taken_is_what_the_reader_says(data: bytes) -> None:
    assert SPEEDUPS is not None
    sender = SPEEDUPS.Sender(LIMITS, route_ending(ROUTE) + NUL, IDS.opening, IDS.digits, None)
    reader = ObjectReader()
    reader.feed(data)
    ids, begin = ObjectIds(IDS.prefix), 0
    for is_reply, key, about, frame, to, makes_id, end in SPEEDUPS.exchanges(sender, data, 0):
        obj = reader.next_event()
        assert isinstance(obj, BusObject)
        fields = json.loads(obj.metadata)
        assert end - begin == len(obj.metadata) + 1 + len(obj.payload)
        assert obj.head.event == ("services/reply" if is_reply else "services/request")
        assert key == key_of(fields["in-reply-to" if is_reply else "id"])
        assert to == obj.head.to
        assert makes_id == ("id" not in fields)
        # What the plan depends on; the name is there as it was written.
        flags, (name, _, kind) = about[0] - ord("0"), about[1:].partition(NUL)
        assert (flags & 1, flags >> 1) == (obj.head.type is not None, obj.head.size > 0)
        assert kind.decode() == (obj.head.type or "")
        assert json.loads(name or "null") == fields.get("name")
        assert not {"service", "natures", "route"} & fields.keys()
        assert len(fields) == obj.metadata.count(b":")
        assert frame == encode(with_route(obj, ROUTE, ids), obj.payload)
        begin = end


def test_plain_ones_are_taken() -> None:
    assert SPEEDUPS is not None
    sender = SPEEDUPS.Sender(LIMITS, route_ending(ROUTE) + NUL, IDS.opening, IDS.digits, None)
    request = b'{"event":"services/request","name":"tv","id":"a","type":"a/b","size":3}\0\0\0\0'
    reply = b'{"event":"services/reply","name":"tv","in-reply-to":"a","to":"c2"}\0'
    taken = SPEEDUPS.exchanges(sender, (request + reply) * 100, 0)
    assert len(taken) == 128
    assert taken[-1][-1] == 64 * len(request + reply)


class Exchanging:
    """Clients that ask, and providers of one service, at a server whose connections have turns.

    Each client has asked each provider already. So whatever is plain comes to the compiled module from now on.
    """

    def __init__(self, askers: int, providers: int) -> None:
        self.network = InTurns()
        self.askers = [self.network.member(subscriptions=["@services/reply"]) for _ in range(askers)]
        self.providers = [self.network.member(subscriptions=["@services/request"]) for _ in range(providers)]
        for each in self.providers:
            each.send({"event": "services/register", "name": "tv"})
        for each in self.askers:
            for number in range(providers):
                self.say(each, "request", id=f"{each.routing_id} {number}", name="tv")
        self.answer()
        drain(self.askers)

    def say(self, who: Member, what: str, **fields: Any) -> None:
        fields = {key.replace("_", "-"): value for key, value in fields.items()}
        who.connection.send_bytes(encode({"event": f"services/{what}", **fields}))
        self.network.reactor.advance(0)

    def asked(self) -> list[list[dict[str, Any]]]:
        """What each provider was asked since the last time: the asker and its id, as a reply says them."""
        heads = [[head for head in each.heads() if head["event"] == "services/request"] for each in self.providers]
        return [[{"to": head["route"][0], "in_reply_to": head["id"]} for head in each] for each in heads]

    def answer(self) -> list[int]:
        """Each provider replies to all that it was asked. :returns: how many that was."""
        asked = self.asked()
        for provider, each in zip(self.providers, asked, strict=True):
            for about in each:
                self.say(provider, "reply", **about)
        return [len(each) for each in asked]

    def only_compiled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(self.network.bus._batches, "route_batch", None)


def test_providers_take_turns_and_each_asker_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Exchanging(askers=2, providers=3)
    scene.only_compiled(monkeypatch)
    for number in range(6):
        for asker, who in enumerate(scene.askers):
            scene.say(who, "request", id=f"{asker} {number}", name="tv")
    assert scene.answer() == [4, 4, 4]
    for asker, who in enumerate(scene.askers):
        replied = [head["in-reply-to"] for head in who.heads()]
        assert sorted(replied) == [f"{asker} {number}" for number in range(6)]


def test_only_the_asker_is_given_a_reply() -> None:
    scene = Exchanging(askers=2, providers=1)
    (first, second), (provider,) = scene.askers, scene.providers
    scene.say(first, "request", id="a", name="tv")
    scene.say(provider, "reply", in_reply_to="a", to=second.routing_id)
    assert (first.heads(), second.heads()) == ([], [])
    scene.say(provider, "reply", in_reply_to="b", to=first.routing_id)
    scene.say(provider, "reply", in_reply_to="a", to=first.routing_id)
    assert ([head["in-reply-to"] for head in first.heads()], second.heads()) == (["a"], [])


def test_an_id_that_a_provider_knows_is_another_one_for_it() -> None:
    scene = Exchanging(askers=2, providers=1)
    for who in scene.askers:
        scene.say(who, "request", id="a", name="tv")
    ((first, second),) = scene.asked()
    assert first["in_reply_to"] == "a" != second["in_reply_to"]
    for about in (second, first):
        scene.say(scene.providers[0], "reply", **about)
    assert [[head["in-reply-to"] for head in who.heads()] for who in scene.askers] == [["a"], ["a"]]


def test_who_provides_no_more_merely_observes() -> None:
    scene = Exchanging(askers=1, providers=2)
    scene.say(scene.providers[0], "unregister", name="tv")
    drain(scene.providers)
    for number in range(4):
        scene.say(scene.askers[0], "request", id=f"{number}", name="tv")
    assert scene.answer() == [4, 4]
    assert len(scene.askers[0].heads()) == 4
    assert scene.network.bus.counters["no-such-request"] == 4


def test_a_late_reply_comes_to_nobody() -> None:
    scene = Exchanging(askers=1, providers=1)
    scene.say(scene.askers[0], "request", id="a", name="tv")
    scene.network.reactor.advance(scene.network.bus.settings.request_timeout + 1)
    assert scene.answer() == [1]
    assert scene.askers[0].heads() == []
    assert scene.network.bus.counters["no-such-request"] == 1
