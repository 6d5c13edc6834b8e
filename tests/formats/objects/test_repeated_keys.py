"""Metadata with a repeated key is written anew on every path: the policy and a receiver may go by different ones."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bussrv.wire.objects import NUL
from tests.formats.network import Member, Network, drain
from tests.size import sized

Pairs = list[tuple[str, Any]]
STYLES = ((",", ":"), (", ", ": "), (" ,\t", " : "))

further = st.lists(
    st.tuples(st.sampled_from(["x", "y", "name", "é", "a b"]), st.sampled_from([1.0, ":", '"x":', {"x": [1, {}]}])),
    max_size=5,
)


def text(pairs: Pairs, style: tuple[str, str]) -> bytes:
    comma, colon = style
    members = (f"{json.dumps(key)}{colon}{json.dumps(value, separators=style)}" for key, value in pairs)
    return f"{{{comma.join(members)}}}".encode() + NUL


class Scene:
    """A provider, an asker, somebody who observes, and a linked server."""

    def __init__(self) -> None:
        self.network = network = Network(announce="off")
        self.provider = network.member(receive_mode="no_echo", **{"routing-id": "provider"})
        self.asker = network.member(receive_mode="no_echo", **{"routing-id": "asker"})
        self.provider.send({"event": "services/register", "name": "vault"})
        self.cellar = network.server("cellar")
        self.cellar.send({"event": "routing/subscribe/notify", "routing-id": "c1", "route": ["c1", "cellar"]})
        self.all = [self.provider, self.asker, self.cellar]
        drain(self.all)

    def say(self, sender: Member, pairs: Pairs, style: tuple[str, str]) -> None:
        sender.connection.send_bytes(text(pairs, style))
        self.network.reactor.advance(0)

    def expect(self, pairs: Pairs, *receivers: Member) -> None:
        """Each receiver is given one object without a repeated key, with the values that count for the server."""
        for member in self.all:
            frames = [frame for frame in member.connection.take().split(NUL) if frame]
            given = [json.loads(frame, object_pairs_hook=list) for frame in frames]
            if member not in receivers:
                assert given == []
                continue
            (members,) = given
            keys = [key for key, _ in members]
            assert len(set(keys)) == len(keys)
            told, said = json.loads(frames[0]), dict(pairs)
            assert {**told, "route": None, "id": None} == {**said, "route": None, "id": None}


@settings(max_examples=sized(60))
@given(further, st.sampled_from(STYLES))
@example([("x", 1.0), ("x", ":"), ("y", 1.0)], STYLES[1])
@example([("name", "open/none"), ("name", ":")], STYLES[0])
def test_what_is_forwarded_has_no_key_twice_on_any_path(more: Pairs, style: tuple[str, str]) -> None:
    scene = Scene()
    provider, asker, cellar = scene.all
    route = [("route", ["c1", "cellar"])]
    for sender, tail, others, asked_too in (
        (asker, [], (provider, cellar), ()),
        (cellar, route, (provider, asker), (asker,)),
    ):
        # An object for everybody, one with an address, and a request, each of which says something twice.
        plain = [("type", "a/b"), ("id", "1"), *more, ("type", "text/plain"), ("id", "plain")]
        scene.say(sender, plain + tail, style)
        scene.expect(plain, *others)
        addressed = [("event", "tick"), ("to", "provider"), *more, ("id", "to"), *more]
        scene.say(sender, addressed + tail, style)
        scene.expect(addressed, provider)
        asked = [("event", "services/request"), ("name", "open"), *more, ("id", sender.routing_id), ("name", "vault")]
        scene.say(sender, asked + tail, style)
        scene.expect(asked, provider, *asked_too)
        replied = [
            ("event", "services/reply"),
            *more,
            ("in-reply-to", "other"),
            ("in-reply-to", sender.routing_id),
            *more,
        ]
        scene.say(provider, replied, style)
        scene.expect(replied, sender)
