"""Requests and replies by plans come to the same as each of them routed by itself: of two whole servers side by side.

What comes of a history is every byte that anybody is given, the requests that are open, whose turn it is, the
counters, what taps show, and what the journal says.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.bus.taps.tap import TapFilter
from bussrv.policy.permissions.file import parse_policy
from bussrv.wire.objects import BusObject, ObjectReader, encode
from tests.formats.network import Connection, Network
from tests.fuzz.draw import Draw
from tests.size import sized

Op = tuple[Any, ...]

SERVICES = ("tv", "tv", "tv", "radio", "TV")
IDS = (*(b'"%d"' % number for number in range(20)), b'"a"', b'"a"', b'"b"', b"1", b'"\\u0061"', b'"%b"' % (b"i" * 300))
ODD_IDS = (b"null", b"1.0", b"true", b"1e999", b"[]", b"12345678901234567890")
NAMES = (b'"tv"',)
ODD_NAMES = (b'"radio"', b'"radio"', b'"TV"', b'"nobody\'s"', b'"\\u0074v"', b"7", b'"bus/registry"')
MEMBERS = (b"", b',"type":"text/plain"', b',"type":"Text/Plain; charset=UTF-8"', b',"x":"y"', b',"type":"image/png"')
ODD_MEMBERS = (
    *(b',"x":"a:b"', b',"x":{"id":1}'),
    *(b', "x" : [ 1 ]', b',"id":"b"', b',"natures":["n"]', b',"to":"r0"', b',"to":["r0","r1"]', b',"to":"c1"'),
    *(b',"route":["forged"]', b',"sender":"tv"', b',"service":"radio"', b',"service":null', b',"event":"x"'),
)
EVENTS = (b"services/request",)
ODD_EVENTS = (b"services/reply", b"Services/Request", b"error", b"ping", b"lamp/on")
PAYLOADS = (b"", b"x", b"\0\xff")
SUBSCRIPTIONS: tuple[dict[str, Any], ...] = (
    {"subscriptions": ["@services/request", "@services/reply"]},
    {"subscriptions": ["@services/request", "@services/reply"]},
    {"subscriptions": ["@services/request", "!text/plain", "@error"]},
    {"subscriptions": ["@services/reply"]},
    {"subscriptions": ["@services/reply"]},
    {"receive_mode": "none"},
    {"receive_mode": "none"},
    {"receive_mode": "no_echo", "types": "none"},
    {"types": "none"},
)
LIMITS: tuple[dict[str, Any], ...] = (
    *({}, {}, {}, {"max_requests_per_asker": 3}, {"max_requests": 5}, {"request_timeout": 3.0}, {"strict": True}),
    {"max_outbound": 1500},
)
POLICY = """
[[rule]]
send = "*"
observe = "*"
provide = ["tv", "radio"]
request = ["tv"]
address = "*"
"""


REPLIES = (b"", b',"to":%(to)b', b',"to":%(to)b,"type":"text/plain"', b',"id":"own"', b',"to":%(to)b,"id":"own"')
ODD_REPLIES = (
    *(b',"to":"nobody"', b',"x":"a:b"', b', "x" : 1', b',"size":0', b',"id":null', b',"natures":["n"]'),
    *(b',"route":[]', b',"to":[%(to)b]', b',"in-reply-to":"b"'),
)
RARE = 16
"""Of 256: so often something is odd. One oddity is enough for an object to be routed by itself."""


def history(draw: Draw) -> list[Op]:
    """What happens, one after the other; at most half of it is no request and no reply."""
    ops: list[Op] = []
    while not draw.is_over and len(ops) < 60:
        ops.append(_op(draw))
    return ops


def _op(draw: Draw) -> Op:
    number, kind = draw.byte(), draw.byte()
    if kind < 60:
        said = b"".join(_object(draw) for _ in range(1 + draw.byte() % 8))
        return ("say", number, said, draw.byte() if draw.chance(128) else 0)
    if kind < 100:
        return ("say apart", number, [_object(draw) for _ in range(2 + draw.byte() % 6)])
    if kind < 200:
        return ("answer", [_mostly(draw, REPLIES, ODD_REPLIES) for _ in range(4)], draw.chance(128))
    if kind < 225:
        return ("command", number, draw.one(("register", "unregister")), draw.one(SERVICES))
    if kind < 235:
        return ("join again", number, draw.one(SUBSCRIPTIONS))
    ops: tuple[Op, ...] = (("join", draw.one(SUBSCRIPTIONS)), ("leave", number), ("wait", 0.0), ("wait", 2.0))
    further: tuple[Op, ...] = (("wait", 5.0), ("tap",), ("tap",), ("stall", number), ("link",), ("policy",))
    return draw.one((*ops, *ops, *further))


def _mostly(draw: Draw, usual: tuple[bytes, ...], odd: tuple[bytes, ...]) -> bytes:
    return draw.one(odd if draw.chance(RARE) else usual)


def _object(draw: Draw) -> bytes:
    """An object as a client writes it, most often a request."""
    event, name = _mostly(draw, EVENTS, ODD_EVENTS), _mostly(draw, NAMES, ODD_NAMES)
    further = _mostly(draw, MEMBERS, ODD_MEMBERS)
    payload = draw.one(PAYLOADS) if b"type" in further else b""
    asks = event not in (b"services/reply", b"error")
    reply_to = b"" if asks else b',"in-reply-to":%b' % _mostly(draw, IDS, ODD_IDS)
    own_id = b"" if draw.chance(RARE) else b',"id":%b' % _mostly(draw, IDS, ODD_IDS)
    size = b',"size":%d' % len(payload) if payload else b""
    return b'{"event":"%b","name":%b%b%b%b%b}\0%b' % (event, name, own_id, reply_to, further, size, payload)


class ByPlans(Network):
    """A server as it is, but for its compiled module."""

    def __init__(self, **limits: Any) -> None:
        super().__init__(link_allow=(ip_network("10.0.0.0/8"),), **limits)
        self.bus.compiled_router.make = None


class OneByOne(ByPlans):
    """A server whose requests and replies are each routed by itself."""

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self.bus._batches._exchange = lambda table, obj: False


class Scene:
    """One of the servers, with its clients.

    :ivar given: what each client was given in each step.
    """

    def __init__(self, network: Network, in_turns: bool) -> None:
        self.network = network
        network.factory("objects").in_turns = in_turns
        self.clients: list[Connection] = []
        self.asked: list[list[BusObject]] = []
        self.given: list[list[bytes]] = []
        self.readers: list[ObjectReader] = []
        self.tap: Any = None
        self.shown: list[Any] = []
        # Two that ask and three that are asked.
        for number, subscription in enumerate([SUBSCRIPTIONS[3], SUBSCRIPTIONS[3], *SUBSCRIPTIONS[:3]]):
            self.do_join(subscription)
            if number > 1:
                self.do_command(number, "register", "tv")
        self.look()

    def do(self, op: Op) -> None:
        name, *about = op
        getattr(self, f"do_{name.replace(' ', '_')}")(*about)
        self.look()

    def do_join(self, subscription: dict[str, Any]) -> None:
        if len(self.clients) < 8:
            client = self.network.connect("objects")
            reader = ObjectReader()
            reader.expect_server()
            self.clients.append(client)
            self.asked.append([])
            self.readers.append(reader)
            asked = {"event": "routing/subscribe", "routing-id": f"r{len(self.clients)}", "routing-ids": ["r0"]}
            client.send_bytes(encode({**asked, **subscription}))

    def one(self, number: int) -> Connection:
        return self.clients[number % len(self.clients)]

    def do_join_again(self, number: int, subscription: dict[str, Any]) -> None:
        self.one(number).send_bytes(encode({"event": "routing/subscribe", **subscription}))

    def do_command(self, number: int, what: str, name: str) -> None:
        self.one(number).send_bytes(encode({"event": f"services/{what}", "name": name}))

    def do_say(self, number: int, said: bytes, part: int = 0) -> None:
        """In two chunks, of which the first one is so much of 256 parts."""
        size = len(said) * part // 256
        for chunk in (said[:size], said[size:]):
            if chunk:
                self.one(number).send_bytes(chunk)

    def do_say_apart(self, number: int, said: list[bytes]) -> None:
        """Each in a chunk of its own: the compiled module reads those after a plain one, if connections have turns."""
        for each in said:
            self.one(number).send_bytes(each)

    def do_answer(self, forms: list[bytes], apart: bool = False) -> None:
        """Each client replies to every request that it was given, in one chunk or in one for each."""
        for client, asked in zip(self.clients, self.asked, strict=True):
            replies = []
            for place, obj in enumerate(asked):
                fields = obj.fields()
                about = {b"to": encode_id(fields["route"][0]), b"id": encode_id(fields["id"])}
                form = b'{"event":"services/reply","in-reply-to":%(id)b' + forms[place % len(forms)] + b"}\0"
                replies.append(form % about)
            asked.clear()
            for chunk in replies if apart else (b"".join(replies),):
                client.send_bytes(chunk)

    def do_leave(self, number: int) -> None:
        self.one(number).close()

    def do_wait(self, seconds: float) -> None:
        self.network.reactor.advance(seconds)

    def do_stall(self, number: int) -> None:
        client = self.one(number)
        if client.is_open:
            client.protocol.link.pauseProducing()

    def do_link(self) -> None:
        about = {"role": "server", "routing-id": "cellar", "subscriptions": ["*"]}
        self.network.connect("objects").send_bytes(encode({"event": "routing/subscribe", **about}))

    def do_policy(self) -> None:
        self.network.bus.access.policy = parse_policy(POLICY, Path("policy.toml"), ("objects",))
        self.network.bus.policy_changed()

    def do_tap(self) -> None:
        if self.tap is None:
            about = {"actor": None, "peer": "10.0.0.9:1", "protocol": "http", "most": 1 << 20}
            self.tap = self.network.bus.taps.open(TapFilter(rate=1000, payload=True), **about)
        else:
            self.network.bus.taps.close(self.tap)
            self.tap = None

    def look(self) -> None:
        given = [client.take() for client in self.clients]
        self.given.append(given)
        for number, data in enumerate(given):
            self.readers[number].feed(data)
            self.asked[number] += _requests(self.readers[number])
        while self.tap is not None and (tapped := self.tap.take()) is not None:
            self.shown.append(tapped)

    def outcome(self) -> list[Any]:
        bus = self.network.bus
        # The times of day and sessions of taps are equal, too.
        journal = [record.event for record in self.network.journal.records]
        traffic = [str(client.protocol.traffic) for client in self.clients]
        turns = {name: count for name, count in bus.audience.provider_round.items() if count}
        return [self.given, len(bus._requests), turns, dict(+bus.counters), self.shown, journal, traffic]


def encode_id(value: object) -> bytes:
    return encode({"id": value})[len(b'{"id":') : -2]


def _requests(reader: ObjectReader) -> Iterator[BusObject]:
    while (event := reader.next_event()) is not None:
        if isinstance(event, BusObject) and event.head.event == "services/request":
            yield event


choices = st.builds(
    lambda seed, size, limits, in_turns: (Random(seed).randbytes(size), limits, in_turns),
    st.integers(0, 1 << 64),
    st.integers(100, 3000),
    st.sampled_from(LIMITS),
    st.booleans(),
)


@settings(max_examples=max(sized(600, 20), settings.default.max_examples))
@given(choices)
def test_two_servers_come_to_the_same(chosen: tuple[bytes, dict[str, Any], bool]) -> None:
    data, limits, in_turns = chosen
    by_plans, one_by_one = (Scene(make(**limits), in_turns) for make in (ByPlans, OneByOne))
    for op in history(Draw(data)):
        for scene in (by_plans, one_by_one):
            scene.do(op)
        assert by_plans.given[-1] == one_by_one.given[-1], op
    assert by_plans.outcome() == one_by_one.outcome()


def test_plain_requests_and_replies_need_no_router(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(ByPlans(), in_turns=False)
    monkeypatch.setattr(scene.network.bus._router, "route_one", None)
    ask = b'{"event":"services/request","name":"tv","id":%d,"type":"a/b","size":9}\0\0\0payload'
    for part in range(0, 256, 5):
        requests = b"".join(ask % (1000 + 20 * part + number) for number in range(20))
        scene.do(("say", 0, requests, part))
        scene.do(("answer", [b""]))
        assert scene.given[-1][0].count(b'"in-reply-to"') == 20


def test_a_batch_makes_few_plans_if_there_are_many_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(ByPlans(), in_turns=False)
    for _ in range(100):
        scene.network.member(**SUBSCRIPTIONS[0]).send({"event": "services/register", "name": "tv"})
    routed: list[object] = []
    route = scene.network.bus._router.route_one
    monkeypatch.setattr(scene.network.bus._router, "route_one", lambda *about: routed.append(about) or route(*about))
    asks = b'{"event":"services/request","name":"tv","id":%d,"type":"a/%d"}\0'
    scene.do(("say", 0, b"".join(asks % (number, number % 4) for number in range(20))))
    before = len(routed)
    assert 0 < before < 10
    scene.do(("say", 0, b"".join(asks % (number, number % 4) for number in range(20, 40))))
    assert len(routed) == before, "by now there is a plan for each of the types"
