"""The compiled module comes to the same as Python: of whole servers, and of each object that it takes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bussrv.bus.routing.compiled import CompiledRouter
from bussrv.bus.routing.compiled_result import ScanResult
from bussrv.compiled import SPEEDUPS
from tests.bus.routing.test_batch import InTurns
from tests.equality import plain
from tests.equality.compiled import Compiled, Op, Pure, compare, compare_forwarded, play, played
from tests.fuzz.draw import Draw
from tests.size import sized

pytestmark = pytest.mark.skipif(SPEEDUPS is None, reason="the compiled module is not there, or is switched off")

choices = st.builds(lambda seed, size: Random(seed).randbytes(size), st.integers(0, 1 << 64), st.integers(20, 2000))


@settings(max_examples=max(sized(600, 15), settings.default.max_examples))
@given(choices)
def test_two_servers_come_to_the_same(data: bytes) -> None:
    play(data)


@settings(max_examples=max(sized(3000, 20), settings.default.max_examples))
@given(choices)
@example(b"")
def test_what_it_takes_is_what_python_takes(data: bytes) -> None:
    compare(plain.stream(Draw(data), 12))
    compare_forwarded(plain.stream(Draw(data), 12, is_forwarded=True))


@pytest.mark.parametrize(
    "form",
    [
        '{"type":"a/b","id":%s,"size":%s}',
        '{"size":%s,"id":%s,"x":[1,"type"]}',
        '{"event":"x","size":%s}',
        '{"id":%s, "type":"a/b"}',
        '{"id":%s,"sender":"tv","name":{"a:b":[]},"size": %s}',
        '{"id":%s,"id2":"type"}',
    ],
)
def test_objects_like_one_before(form: str) -> None:
    """An object of which one before differs in the id and the size alone is taken in fewer steps. Nothing else may."""
    first = form.index('"size"') < form.index('"id"') if '"size"' in form and '"id"' in form else '"id"' not in form

    def said(identity: bytes, size: bytes, payload: bytes) -> bytes:
        texts = (size, identity) if first else (identity, size)
        return form.encode() % texts[: form.count("%s")] + b"\0" + payload * ('"size"' in form)

    usual = said(b'"i1"', b"3", b"abc")
    assert compare(usual * 3) == (3, 3)
    for identity in (*plain.IDS, *plain.ODD_IDS):
        compare(usual + said(identity, b"2", b"xy") + usual)
    for size in (b"0", b"00", b"-0", b"1.0", b"1e0", b"41", b"40", b"99999999999999999999", b'"1"', b""):
        compare(usual + said(b'"i2"', size, b"abc") + usual)
    for place in range(len(usual)):
        for odd in (b"", b'"', b"\\", b" ", b"x", b"0", b"}", b"\xff", b"\0", b"\x01"):
            compare(usual + usual[:place] + odd + usual[place + 1 :] + usual)
        compare(usual + usual[:place])


ESCAPED, SPELLED, UNSOUND = (b'\\"', b"\\u00e9", b"\\u0074"), map(str.encode, "ü€💡"), (b"\x1f", b"\xff", b"\0")


@pytest.mark.parametrize("odd", [b"", b"\x7f", *ESCAPED, *SPELLED, *UNSOUND])
def test_strings_of_every_length(odd: bytes) -> None:
    """Strings are skipped many bytes at a time: what is not skipped may stand at any place, and so may their ends."""
    for size in range(140):
        compare(b'{"a":"%b%b","%bb%b":0}\0' % (b"x" * size, odd, odd, b"y" * (70 - size)))


def test_metadata_and_payload_of_every_length() -> None:
    """Short texts are copied sixteen bytes at a time, longer ones as a whole."""
    for size in range(300):
        text = bytes(ord("a") + place % 26 for place in range(size))
        payload = text[: size % 41]
        assert compare(b'{"a":"%b","size":%d}\0%b' % (text, len(payload), payload)) == (1, 1)


def test_input_that_ends_anywhere() -> None:
    stream = b'{"a":"%b","type":"text/plain","size":3}\0abc{"b":-1.5e3,"c":[true,"d"]}\0' % (b"x" * 70)
    for size in range(len(stream)):
        compare(stream[:size])


@pytest.mark.parametrize("is_forwarded", [False, True])
def test_it_takes_most_objects(is_forwarded: bool) -> None:
    source = Random(1)
    streams = [plain.stream(Draw(source.randbytes(1000)), 12, is_forwarded) for _ in range(200)]
    both = map(compare_forwarded if is_forwarded else compare, streams)
    took, total = map(sum, zip(*both, strict=True))
    assert total > 2000
    assert took > 3 / 5 * total, f"{took} of {total}"


def test_more_kinds_and_groups_than_a_table_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 types make a table be forgotten; of 20 different interests, some are no longer an outlet of their own."""
    monkeypatch.setattr("tests.equality.compiled.MOST_CLIENTS", 30)
    joins: list[Op] = [("join", {"types": [f"a/{number}*"]}) for number in range(20)]
    frames = [b'{"type":"a/%d","id":%d}\0' % (number % 400, number) for number in range(1200)]
    ops = [("limits", {}, False), *joins, ("say", 3, b"".join(frames), [900, 5000])]
    compiled = played(Compiled, ops)
    assert compiled == played(Pure, ops)
    assert compiled[-1] >= {("send", f"a/{number}") for number in range(20)}
    assert [given.count(b'"type":"a/7') for given in compiled[0]][7] == 3 * 11


def _not_fed(_: bytes) -> None:
    raise AssertionError("the chunk was given to the reader")


def test_whole_chunks_are_routed_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    network = InTurns()
    sender, other = network.member(), network.member()
    for number in range(3):
        if number:
            monkeypatch.setattr(sender.connection.protocol.objects, "feed", _not_fed)
        sender.connection.send_bytes(b'{"type":"a/b","id":1}\0{"type":"c/d"}\0')
    network.reactor.advance(0)
    assert [event for event in other.names() if "/" in event][-6:] == ["a/b", "c/d"] * 3
    assert sender.connection.protocol.traffic.objects_in == 1 + 6


def test_a_fault_of_the_routing_of_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the session. What others have sent in the same turn of the reactor is sent."""
    network = InTurns()
    sender, other, receiver = network.member(), network.member(), network.member()
    for each in (sender, other):
        each.connection.send_bytes(b'{"type":"a/b","id":1}\0')
    network.reactor.advance(0)
    receiver.received()
    other.connection.send_bytes(b'{"type":"a/b","id":2}\0')
    monkeypatch.setattr(network.bus.compiled_router, "_route", None)
    sender.connection.send_bytes(b'{"type":"a/b","id":3}\0')
    assert network.bus.counters["internal-error"] == 1
    assert receiver.names() == ["a/b", "routing/disconnect"]
    assert not sender.connection.is_open


def test_a_piece_counts_as_all_of_its_objects() -> None:
    """A member is answered while one piece with seven objects waits for it and others."""
    network = InTurns()
    sender, asks, other = network.member(receive_mode="none"), network.member(), network.member()
    for each in (sender, asks, other):
        each.received()
    traffic = [each.connection.protocol.traffic for each in (asks, other)]
    before = [each.objects_out for each in traffic]
    sender.connection.send_bytes(b'{"type":"a/b","id":1}\0' * 7)
    asks.send({"event": "ping"})
    assert asks.names() == [*["a/b"] * 7, "pong"]
    assert other.names() == ["a/b"] * 7
    assert [after.objects_out - since for after, since in zip(traffic, before, strict=True)] == [8, 7]


def test_a_route_only_server_leaves_most_objects_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies for it have other routes than those for members. A copy that has no room for marks is one for Python."""
    taken: list[int] = []

    def noted(self: CompiledRouter, *given: Any) -> ScanResult:
        result = route_stretch(self, *given)
        taken.append(result.objects)
        return result

    route_stretch = CompiledRouter.route_stretch
    monkeypatch.setattr(CompiledRouter, "route_stretch", noted)
    links: list[Op] = [("join", {}), ("link", "cellar", True), ("link", "attic", False)]
    said = b"".join(b'{"type":"a/b","id":%d}\0' % number for number in range(200))
    long = b'{"id":0,"x":"%b"}\0' % (b"y" * 100)
    forwarded = said.replace(b"}", b',"route":["c1","cellar"]}')
    ops = [
        ("limits", {"max_metadata": 120}, False),
        *links,
        ("say", 0, said + long, []),
        ("forward", ("cellar",), forwarded, []),
    ]
    compiled = played(Compiled, ops)
    assert sum(taken) >= 350
    assert compiled == played(Pure, ops)
    assert compiled[0][2].count(b'"hall","cellar"]') == 201
