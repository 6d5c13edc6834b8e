"""What linked servers tell each other of sessions: what is told is what is learned."""

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from bussrv.bus.links.advertisement_fields import (
    ADVERTISEMENTS,
    DISCONNECT,
    NOTIFY,
    REGISTER,
    UNREGISTER,
    events_between,
    learn,
    path_of,
    subject,
)
from bussrv.bus.links.paths import RemoteSession
from bussrv.errors import Refused
from bussrv.registry.changes.rules import ReservedNames
from tests.tables import each_row

NEIGHBOUR = "cellar"
MOST = 256
RESERVED = ReservedNames()
paths = st.lists(st.sampled_from(["attic", "shed", "barn"]), max_size=3, unique=True).map(
    lambda servers: (*servers, NEIGHBOUR)
)
services = st.frozensets(st.sampled_from(["tv", "radio", "lamp", "door", "gate", "bell"]))
protocols = st.sampled_from(["objects", "spp", "mqtt"])
words = st.sampled_from(NOTIFY)

members = st.builds(
    RemoteSession,
    routing_id=st.just("ann"),
    path=paths,
    is_member=st.just(True),
    routing_ids=st.lists(st.sampled_from(["door", "gate"]), unique=True).map(tuple),
    role=st.sampled_from([None, "server"]),
    protocol=protocols,
    tells_all=st.booleans(),
    services=services,
    session=st.sampled_from([None, "5f1c2ab94e07.3"]),
)
# One that is no member is known for what it provides, and for that alone.
providers = st.builds(
    RemoteSession,
    routing_id=st.just("ann"),
    path=paths,
    protocol=protocols,
    services=services.filter(lambda names: len(names)),
    answered=services,
).map(lambda remote: replace(remote, answered=remote.answered & remote.services))
known = st.none() | members | providers


def hear(before, events):
    """What one who knew ``before`` knows after these events of its neighbour."""
    for fields in events:
        assert fields["event"] in ADVERTISEMENTS
        on_the_wire = msgspec.json.decode(msgspec.json.encode(fields))
        routing_id = subject(on_the_wire, on_the_wire["route"], NEIGHBOUR)
        assert routing_id == "ann"
        before = learn(
            before,
            on_the_wire,
            routing_id,
            path_of(on_the_wire, on_the_wire["route"], routing_id, NEIGHBOUR),
            MOST,
            RESERVED,
        )
    return before


def is_provider_of_another_protocol(before, now):
    """Both are no members, go on providing something, and are spoken to in different routes."""
    if before is None or now is None or before.is_member or now.is_member:
        return False
    return before.protocol != now.protocol and bool(before.services & now.services)


@given(known, known, words, st.booleans())
def test_what_is_told_is_what_is_learned(before, now, notify, takes_names):
    assume(not is_provider_of_another_protocol(before, now))
    assert hear(before, events_between(before, now, notify, takes_names=takes_names)) == now


@each_row("path", [(NEIGHBOUR,), ("attic", NEIGHBOUR)])
def test_another_protocol_of_a_provider_is_learned(path):
    before = RemoteSession(routing_id="ann", path=(NEIGHBOUR,), protocol="spp", services=frozenset(["tv"]))
    now = RemoteSession(routing_id="ann", path=path, protocol="inbus", services=frozenset(["tv"]))
    assert hear(before, events_between(before, now, NOTIFY[0])) == now


def test_a_servers_own_service_is_learned_with_its_home():
    before = RemoteSession(routing_id="ann", path=("ann", NEIGHBOUR), is_member=True, role="server")
    now = RemoteSession(
        routing_id="ann", path=("ann", NEIGHBOUR), is_member=True, role="server", services=frozenset(["tv"])
    )
    (said,) = events_between(before, now, NOTIFY[0])
    assert said["route"] == ["ann", NEIGHBOUR]
    assert hear(before, [said]) == now


@given(known, words)
def test_nothing_is_told_of_what_is_known(remote, notify):
    assert list(events_between(remote, remote, notify)) == []


@given(members, words)
def test_members_are_told_of_with_the_word_that_was_asked_for(remote, notify):
    first, *others = events_between(None, remote, notify)
    assert first["event"] == notify
    assert {each["event"] for each in others} <= {REGISTER}
    assert [each["name"] for each in others] == sorted(remote.services)


def test_attributes_without_a_value_are_left_out():
    remote = RemoteSession(routing_id="ann", path=("attic", NEIGHBOUR), is_member=True)
    (said,) = events_between(None, remote, NOTIFY[1])
    assert said == {
        "event": "routing/subscribe/notification",
        "routing-id": "ann",
        "routing-ids": [],
        "protocol": "objects",
        "route": ["attic", NEIGHBOUR],
    }


def test_the_route_of_a_service_begins_with_its_provider():
    (said,) = events_between(
        None, RemoteSession(routing_id="ann", path=(NEIGHBOUR,), services=frozenset(["tv"])), NOTIFY[0]
    )
    assert said == {
        "event": REGISTER,
        "name": "tv",
        "routing-id": "ann",
        "protocol": "objects",
        "route": ["ann", NEIGHBOUR],
    }


def test_disconnect_ends_a_member_and_unregister_all_a_provider():
    member = RemoteSession(routing_id="ann", path=(NEIGHBOUR,), is_member=True, services=frozenset(["tv", "radio"]))
    assert [(each["event"], "name" in each) for each in events_between(member, None, NOTIFY[0])] == [
        (DISCONNECT, False)
    ]
    provider = RemoteSession(routing_id="ann", path=(NEIGHBOUR,), services=frozenset(["tv", "radio"]))
    assert [(each["event"], "name" in each) for each in events_between(provider, None, NOTIFY[0])] == [
        (UNREGISTER, False)
    ]


# Odd and foreign forms.


def learned(fields, before=None, route=(NEIGHBOUR,)):
    route = list(route)
    routing_id = subject(fields, route, NEIGHBOUR)
    return learn(before, fields, routing_id, path_of(fields, route, routing_id, NEIGHBOUR), MOST, RESERVED)


def reason_of(fields, before=None):
    with pytest.raises(Refused) as refused:
        learned(fields, before)
    return refused.value.reason


ODD_IDS = [7, True, 1.5, "", "x" * 256, "é" * 128, ["ann"], {"ann": 1}]


@each_row("event", ADVERTISEMENTS)
@each_row("routing_id", ODD_IDS, ids=lambda value: repr(value)[:20])
def test_an_odd_routing_id_is_refused(event, routing_id):
    assert reason_of({"event": event, "routing-id": routing_id, "name": "tv"}) == "bad-attribute"


@each_row("event", [*NOTIFY, DISCONNECT])
def test_members_are_named(event):
    assert reason_of({"event": event}) == "bad-attribute"


def test_a_member_that_left_unnamed_is_the_first_of_the_route():
    fields = {"event": DISCONNECT}
    assert subject(fields, ["ann", NEIGHBOUR], NEIGHBOUR) == "ann"
    assert subject({**fields, "routing-id": None}, ["ann", "attic", NEIGHBOUR], NEIGHBOUR) == "ann"
    assert subject({**fields, "routing-id": "bob"}, ["ann", NEIGHBOUR], NEIGHBOUR) == "bob"
    for route in ([], [NEIGHBOUR], [""]):
        with pytest.raises(Refused):
            subject(fields, route, NEIGHBOUR)


@each_row("odd", [7, True, 1.5, [7], [None], [""], ["x" * 256], [["door"]]], ids=lambda v: repr(v)[:20])
def test_odd_further_routing_ids_are_refused(odd):
    assert reason_of({"event": NOTIFY[0], "routing-id": "ann", "routing-ids": odd}) == "bad-attribute"


@each_row("odd", [{"door": 1}, "door"], ids=repr)
def test_further_routing_ids_are_not_made_of_letters_or_keys(odd):
    fields = {"event": NOTIFY[0], "routing-id": "ann", "routing-ids": odd}
    if odd == "door":
        assert learned(fields).routing_ids == ("door",)
    else:
        assert reason_of(fields) == "bad-attribute"


@each_row("none", [None, []])
def test_there_need_be_no_further_routing_ids(none):
    assert learned({"event": NOTIFY[0], "routing-id": "ann", "routing-ids": none}).routing_ids == ()


@each_row("name", [None, 7, True, "", "a\nb", "x" * 256, ["tv"], {"tv": 1}], ids=lambda v: repr(v)[:20])
def test_odd_names_of_services_are_refused(name):
    assert reason_of({"event": REGISTER, "routing-id": "ann", "name": name}) == "bad-service-name"


@each_row("name", [7, True, ["tv"], {"tv": 1}], ids=repr)
def test_an_odd_name_does_not_end_every_service(name):
    before = RemoteSession(routing_id="ann", path=(NEIGHBOUR,), services=frozenset(["tv", "radio"]))
    fields = {"event": UNREGISTER, "routing-id": "ann", "name": name}
    assert reason_of(fields, before) in ("bad-attribute", "bad-service-name")


@each_row("odd", [7, True, "", None, ["spp"]], ids=repr)
def test_a_member_without_a_usable_protocol_speaks_objects(odd):
    assert learned({"event": NOTIFY[0], "routing-id": "ann", "protocol": odd}).protocol == "objects"


def test_a_protocol_is_short():
    assert learned({"event": NOTIFY[0], "routing-id": "ann", "protocol": "p" * 1000}).protocol == "p" * 32


@each_row("odd", [7, "client", None, ["server"]], ids=repr)
def test_the_only_role_is_that_of_a_server(odd):
    assert learned({"event": NOTIFY[0], "routing-id": "ann", "role": odd}).role is None


@each_row("odd", [1, "true", None, [True]], ids=repr)
def test_only_who_says_so_tells_of_everything(odd):
    assert not learned({"event": NOTIFY[0], "routing-id": "ann", "role": "server", "directory": odd}).tells_all


@each_row(
    ("route", "path"),
    [
        ([], ("cellar",)),
        (["cellar"], ("cellar",)),
        (["ann"], ("cellar",)),
        (["ann", "cellar"], ("cellar",)),
        (["attic", "cellar"], ("attic", "cellar")),
        (["attic"], ("attic", "cellar")),
        (["ann", "attic"], ("attic", "cellar")),
        (["ann", "attic", "cellar"], ("attic", "cellar")),
        (["ann", "attic", "attic", "cellar"], ("attic", "cellar")),
        (["ann", "attic", "cellar", "attic", "shed", "cellar"], ("attic", "cellar")),
    ],
    ids=repr,
)
def test_a_path_ends_with_the_neighbour_and_omits_the_session(route, path):
    for event in (*NOTIFY, DISCONNECT):
        assert path_of({"event": event}, route, "ann", NEIGHBOUR) == path


@each_row("named", [{}, {"routing-id": "ann"}])
def test_the_route_of_a_service_begins_with_its_unnamed_provider(named):
    fields = {"event": REGISTER, "name": "tv", **named}
    assert path_of(fields, ["ann", "attic", NEIGHBOUR], "ann", NEIGHBOUR) == ("attic", NEIGHBOUR)
    assert path_of(fields, ["ann"], "ann", NEIGHBOUR) == path_of(fields, [], "ann", NEIGHBOUR) == (NEIGHBOUR,)


def test_the_path_of_the_neighbour_is_itself():
    fields = {"event": NOTIFY[0], "routing-id": NEIGHBOUR, "role": "server"}
    assert (
        path_of(fields, [], NEIGHBOUR, NEIGHBOUR) == path_of(fields, [NEIGHBOUR], NEIGHBOUR, NEIGHBOUR) == (NEIGHBOUR,)
    )


def test_a_server_is_the_home_of_itself():
    fields = {"event": NOTIFY[0], "routing-id": "attic", "role": "server"}
    assert path_of(fields, ["attic", NEIGHBOUR], "attic", NEIGHBOUR) == ("attic", NEIGHBOUR)


@each_row("event", [REGISTER, UNREGISTER])
def test_a_provider_that_is_not_named_is_the_first_of_the_route(event):
    fields = {"event": event, "name": "tv"}
    assert subject(fields, ["ann", NEIGHBOUR], NEIGHBOUR) == "ann"
    assert subject({**fields, "routing-id": None}, ["ann"], NEIGHBOUR) == "ann"
    assert subject(fields, [], NEIGHBOUR) == NEIGHBOUR
    assert subject({**fields, "routing-id": "bob"}, ["ann", NEIGHBOUR], NEIGHBOUR) == "bob"


def test_a_foreign_server_advertises_a_service_with_its_route():
    before = learned({"event": NOTIFY[1], "routing-id": "ann"}, route=[])
    remote = learned({"event": REGISTER, "name": "tv"}, before, route=["ann"])
    assert remote == RemoteSession(routing_id="ann", path=(NEIGHBOUR,), is_member=True, services=frozenset(["tv"]))


def test_an_unregister_without_a_name_ends_every_service():
    services = frozenset(["tv", "radio"])
    member = RemoteSession(routing_id="ann", path=(NEIGHBOUR,), is_member=True, services=services)
    fields = {"event": UNREGISTER, "routing-id": "ann"}
    assert learned(fields, member) == RemoteSession(routing_id="ann", path=(NEIGHBOUR,), is_member=True)
    assert learned(fields, RemoteSession(routing_id="ann", path=(NEIGHBOUR,), services=services)) is None
    assert learned(fields, None) is None


def test_what_is_not_known_is_not_ended():
    member = RemoteSession(routing_id="ann", path=(NEIGHBOUR,), is_member=True, services=frozenset(["tv"]))
    assert learned({"event": UNREGISTER, "routing-id": "ann", "name": "radio"}, member) == member
    assert learned({"event": DISCONNECT, "routing-id": "ann"}) is None


def test_a_member_keeps_its_services_when_it_is_told_of_again():
    member = RemoteSession(routing_id="ann", path=(NEIGHBOUR,), is_member=True, services=frozenset(["tv"]))
    again = learned({"event": NOTIFY[0], "routing-id": "ann", "routing-ids": ["door"]}, member)
    assert (again.routing_ids, again.services) == (("door",), frozenset(["tv"]))
