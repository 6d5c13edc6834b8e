"""``bus/registry`` under a policy: what is hidden is in neither the snapshot nor any update, and the updates fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from twisted.internet.defer import Deferred

from bussrv import events as ev
from bussrv.journal import record
from bussrv.policy.permissions.file import parse_policy
from bussrv.registry.state import snapshot
from bussrv.registry.state.session import Claims, Session, Subscription
from bussrv.registry.state.state import RegistryState
from tests.bus.harness import RecordingLink
from tests.formats.network import Member, Watcher
from tests.services.scene import Hosting
from tests.size import sized
from tests.tables import each_row

FORMATS = ("objects", "spp", "inbus", "business")
IDS = ("ann", "ben", "hid")
SERVICES = ("tv", "radio", "secret")
POLICY = """\
[[rule]]
users = "auditor"
watch = "bus/registry"
admin = "read"

[[rule]]
users = "viewer"
watch = ["bus/registry", "tv"]
request = ["radio", "bus/registry"]
send = "*"
address = {address}

[[rule]]
users = "anonymous"
{rest} = "*"
watch = ["*", "bus/*"]
"""


def policy(address: str = '["ann*", "ben*", "boot*"]') -> Any:
    rest = "".join(f'{each} = "*"\n' for each in ("provide", "publish", "address", "observe")) + "send"
    return parse_policy(POLICY.replace("{rest}", rest).replace("{address}", address), Path("policy.toml"), FORMATS)


def prove(network: Hosting, client: Watcher | Member, user: str) -> None:
    about = network.registry.state.sessions[client.connection.protocol.session_id].about()
    network.registry.note(ev.AuthSucceeded(**{**about, "actor": user}, method="password"))


def watching(network: Hosting, user: str) -> Watcher:
    watcher = network.watcher()
    prove(network, watcher, user)
    watcher.received()
    watcher.subscribe("bus/registry")
    return watcher


class Durable:
    """A durable session."""

    def __init__(self, network: Hosting) -> None:
        self.network = network
        self.id = network.bus.open("mqtt", "192.0.2.1:5", RecordingLink({}), expiry=9).id

    @property
    def is_away(self) -> bool:
        return self.network.registry.state.sessions[self.id].is_away

    def name(self, routing_id: str) -> None:
        if not self.is_away:
            self.network.registry.identify(Claims(session_id=self.id, routing_id=routing_id), None)

    def leave(self) -> None:
        if not self.is_away:
            self.network.bus.leave(self.id, "connection-lost", 9)

    def come_back(self) -> None:
        if self.is_away:
            self.network.registry.resume_session(self.id, "192.0.2.2:6", 7)

    STEPS = {"name durable": name, "leave": leave, "come back": come_back}  # noqa: RUF012


class Seen:
    """The registry as a subscriber knows it."""

    def __init__(self) -> None:
        self.state = RegistryState()
        self.seq = -1
        self.text = ""

    def hear(self, messages: list[bytes]) -> None:
        for each in messages:
            self.text += each.decode()
            fields = json.loads(each)
            if "event" not in fields:
                self._restore(each)
            else:
                # Records of one view are numbered without a gap; what introduces a session has its older time.
                assert fields["seq"] == self.seq + 1
                self.seq += 1
                decoded = record.decode(each + b"\n")
                self.state.apply(decoded.event, decoded.time)

    def _restore(self, message: bytes) -> None:
        shown = msgspec.json.decode(message, type=snapshot.Snapshot)
        self.seq = shown.seq
        self.state = RegistryState()
        services = {name: dict.fromkeys(providers, 0) for name, providers in shown.services.items()}
        self.state.restore(shown.sessions, services, shown.subscriptions)


def as_shown(state: RegistryState) -> tuple[dict[str, Session], dict[str, set[str]], list[Subscription]]:
    services = {name: set(providers) for name, providers in state.services.items()}
    return state.sessions, services, sorted(state.all_subscriptions(), key=repr)


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("identify"),
            st.integers(0, 2),
            st.sampled_from(IDS),
            st.lists(st.sampled_from(["x-1", "ann-2"]), max_size=2),
        ),
        st.tuples(st.sampled_from(["register", "unregister"]), st.integers(0, 2), st.sampled_from(SERVICES)),
        st.tuples(st.just("watch"), st.sampled_from(SERVICES)),
        st.tuples(st.just("close"), st.integers(0, 2)),
        st.tuples(st.just("name durable"), st.sampled_from(IDS)),
        st.tuples(st.sampled_from(["leave", "come back"])),
        st.tuples(st.just("look")),
    ),
    max_size=25,
)


@settings(max_examples=sized(150))
@given(steps)
def test_updates_change_the_view_as_they_change_the_registry(steps: list[tuple[Any, ...]]) -> None:
    network = Hosting()
    network.bus.access.policy = policy()
    network.bus.policy_changed()
    auditor, viewer = watching(network, "auditor"), watching(network, "viewer")
    some = Seen()
    members: list[Member | None] = [None] * 3
    durable = Durable(network)
    for what, *about in steps:
        if what == "look":
            some.hear(viewer.messages())
        elif what in Durable.STEPS:
            Durable.STEPS[what](durable, *about)
        elif what == "watch":
            network.watcher().subscribe(about[0])
        elif what == "close":
            member = members[about[0]]
            if member is not None:
                member.connection.close()
            members[about[0]] = None
        else:
            member = members[about[0]] = members[about[0]] or Member(network.connect("objects"))
            if what == "identify":
                member.send({"event": "routing/subscribe", "routing-id": about[1], "routing-ids": about[2]})
            else:
                member.send({"event": f"services/{what}", "name": about[1]})
        network.tick()
    whole, *updates = auditor.messages()
    assert updates == [record.encode(each).rstrip(b"\n") for each in network.records_after(json.loads(whole)["seq"])]
    some.hear(viewer.messages())
    fresh = Seen()
    fresh.hear([network.bus.last("bus/registry", network.bus.access.of(own(network, viewer)))])
    state, shown = network.registry.state, some.state
    assert as_shown(shown) == as_shown(fresh.state)
    visible = {each for each, its in state.sessions.items() if its.routing_id.startswith(("ann", "ben", "boot"))}
    assert set(shown.sessions) == visible
    provided = {name for name, providers in state.services.items() if visible & set(providers)}
    assert set(shown.services) == provided & {"tv", "radio", "bus/registry"}
    for hidden in ("secret", '"hid"', "x-1"):
        assert hidden not in some.text


def own(network: Hosting, watcher: Watcher) -> Session:
    return network.registry.state.sessions[watcher.connection.protocol.session_id]


def test_a_policy_changes_nothing_for_those_who_see_everything() -> None:
    plain, judged = Hosting(), Hosting()
    judged.bus.access.policy = policy()
    said = []
    for network in (plain, judged):
        watcher = network.watcher()
        prove(network, watcher, "auditor")
        watcher.received()
        watcher.subscribe("bus/registry")
        network.member(**{"routing-id": "hid"}).send({"event": "services/register", "name": "secret"})
        network.tick()
        said.append(watcher.messages())
    assert said[0] == said[1]
    assert len(said[0]) > 3


def test_a_reload_sends_the_registry_as_it_is_shown_from_then() -> None:
    network = Hosting()
    network.bus.access.policy = policy()
    viewer, auditor = watching(network, "viewer"), watching(network, "auditor")
    network.member(**{"routing-id": "hid"})
    network.tick()
    seen = Seen()
    seen.hear(viewer.messages())
    assert "hid" not in {each.routing_id for each in seen.state.sessions.values()}
    auditor.messages()
    network.bus.access.policy = policy('["*"]')
    network.bus.policy_changed()
    network.tick()
    messages = viewer.messages()
    assert len(messages) == 1
    seen.hear(messages)
    assert "hid" in {each.routing_id for each in seen.state.sessions.values()}
    # Whoever saw everything goes on as before.
    assert auditor.messages() == []
    network.member(**{"routing-id": "ann"})
    network.tick()
    seen.hear(viewer.messages())
    assert "ann" in {each.routing_id for each in seen.state.sessions.values()}


@each_row(("user", "is_hidden"), [("viewer", True), ("auditor", False)])
def test_a_member_is_shown_what_its_user_may_know_of(user: str, is_hidden: bool) -> None:
    """After a reload it goes on so: it asks for the state itself."""
    network = Hosting()
    network.bus.access.policy = policy()
    watcher, member = watching(network, user), Member(network.connect("objects"))
    prove(network, member, user)
    member.send({"event": "routing/subscribe", "types": "none", "services": ["bus/registry"], "routing-id": "ann"})
    network.tick()
    watcher.messages()
    assert member.received()[0][0]["services"] == ["bus/registry"]
    for routing_id in ("hid", "ben"):
        network.member(**{"routing-id": routing_id}).send({"event": "services/register", "name": "tv"})
    network.tick()
    updates = [payload for fields, payload in member.received() if "event" not in fields]
    assert updates == watcher.messages()
    shown = [json.loads(each).get("routing_id") for each in updates]
    assert "ben" in shown
    assert ("hid" not in shown) == is_hidden
    hosted = network.bus._hosted._services
    hosted["bus/registry"] = replace(hosted["bus/registry"], ready=lambda _: Deferred())
    network.bus.access.policy = policy('["*"]')
    network.bus.policy_changed()
    network.member(**{"routing-id": "hid-too"})
    network.tick()
    updates = [payload for fields, payload in member.received() if "event" not in fields]
    assert "hid-too" in [json.loads(each).get("routing_id") for each in updates]


def test_a_request_is_answered_with_what_the_asker_may_know_of() -> None:
    network = Hosting()
    network.bus.access.policy = policy()
    network.member(**{"routing-id": "hid"})
    asker = Member(network.connect("objects"))
    about = network.registry.state.sessions[asker.connection.protocol.session_id].about()
    network.registry.note(ev.AuthSucceeded(**{**about, "actor": "viewer"}, method="password"))
    asker.send({"event": "routing/subscribe", "routing-id": "ann"})
    asker.received()
    asker.send({"event": "services/request", "id": 1, "name": "bus/registry"})
    ((_, payload),) = asker.received()
    routing_ids = {session["routing_id"] for session in json.loads(payload)["sessions"]}
    assert "ann" in routing_ids
    assert "hid" not in routing_ids


def test_statistics_are_for_users_who_may_see_the_server() -> None:
    network = Hosting()
    text = POLICY.replace('"bus/registry"', '"bus/statistics"').replace("{address}", '"*"').replace("{rest}", "send")
    network.bus.access.policy = parse_policy(text, Path("policy.toml"), FORMATS)
    said = {}
    for user in ("auditor", "viewer"):
        watcher = network.watcher()
        prove(network, watcher, user)
        watcher.received()
        watcher.subscribe("bus/statistics")
        said[user] = watcher
    assert {"sessions", "services", "counters", "links"} < json.loads(said["auditor"].messages()[0]).keys()
    assert [json.loads(each).keys() for each in said["viewer"].messages()] == [{"server", "version", "started"}]
    network.watcher()
    network.tick(1)
    assert [json.loads(each)["sessions"] for each in said["auditor"].messages()] == [{"spp": 3}]
    assert said["viewer"].messages() == []
