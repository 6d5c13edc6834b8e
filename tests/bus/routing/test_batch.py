"""Objects that are routed a run at a time come to the same as those that are routed one by one."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bussrv.bus.routing import batch
from bussrv.formats.objects.members import MemberProtocol
from bussrv.net.session.input import Input
from bussrv.policy.permissions.permissions import EVERYTHING
from bussrv.wire import spp
from bussrv.wire.objects import MAX_ADDED, encode
from tests.formats.network import Network, drain
from tests.tables import each_row

SUBSCRIPTIONS = [
    {},
    {"receive_mode": "no_echo"},
    {"receive_mode": "events_only"},
    {"types": ["text/*"]},
    {"subscriptions": ["*", "!#spam"]},
    {"subscriptions": ["@lamp/*"]},
]
TEXTS = [
    b'{"type":"text/plain","id":"1"}',
    b'{"type":"Text/Plain; charset=UTF-8","id":1}',
    b'{"type":"text/plain"}',
    b'{"type":"image/png","id":"a:b","size":2}',
    b'{"type":"image/png","id":"1","size":2,"x":{"id":"2"}}',
    b'{"type":"image/png","id":"1","size":0}',
    b'{"size":2,"id":"1"}',
    b'{"id":"1"}',
    b'{"id":null,"type":"text/plain"}',
    b'{"type":null,"id":"1"}',
    b'{"x":1,"y":2}',
    b'{"type":"text/plain","x":2}',
    b'{"type":"text/plain","id":"1","type":"text/html"}',
    b'{"type":"text/plain","id":"1","to":"nobody","to":null}',
    b'{ "type" : "text/plain" , "id" : "1" }',
    b'{"type":"text/plain","id":"1"} ',
    b'{"type":"text/plain","id":"1","route":["forged"]}',
    b'{"type":"text/plain","id":"1","natures":["Spam","b"]}',
    b'{"type":"text/plain","id":"1","natures":[]}',
    b'{"type":"text/plain","natures":[]}',
    b'{"type":"text/plain","id":"1","sender":"tv"}',
    b'{"type":"text/plain","id":"1","sender":"radio","app-type":7}',
    b'{"type":"text/plain","id":"1","sender":null}',
    b'{"type":"text/plain","id":"1","sender":7}',
    b'{"type":"text/pl\xc3\xa4in","id":"1"}',
    b'{"event":"lamp/on","id":"1"}',
    b'{"event":"Lamp/On","id":"1","type":"text/plain"}',
    b'{"event":"routing/x","id":"1"}',
    b'{"event":"ping","id":"1"}',
    b'{"event":"services/request","id":"1","name":"tv"}',
    b'{"event":"services/request","id":"1","name":"nothing"}',
    b'{"event":"services/reply","in-reply-to":"1"}',
    b'{"event":"services/register","name":"radio","id":"1"}',
    b'{"event":"services/unregister","id":"1"}',
    b'{"event":"routing/disconnect","id":"1"}',
    b'{"event":"routing/subscribe","receive_mode":"no_echo"}',
    b'{"type":"text/plain","id":"1","to":"r1"}',
    b'{"type":"text/plain","id":"1","to":["r1","r2"]}',
    b'{"to":7,"id":"1"}',
    b'{"type":"text/plain","id":1.5}',
]
frames = st.sampled_from(TEXTS).map(lambda metadata: metadata + (b"\0\xff\0" if b'"size":2' in metadata else b"\0"))
runs = st.one_of(
    st.lists(frames, max_size=12),
    st.tuples(frames, st.integers(1, 40)).map(lambda many: [many[0]] * many[1]),
)
histories = st.lists(st.tuples(st.integers(0, 3), runs, st.lists(st.integers(0, 999), max_size=3)), max_size=6)


def published(sender, payload):
    return encode({"type": "a", "id": "1", **({"sender": sender} if sender else {})}, payload)


publications = st.builds(published, st.sampled_from([None, "tv", "radio", "nobody"]), st.binary(max_size=3))


class OneByOne(Network):
    """A server that routes no runs."""

    def connect(self, name, host="10.0.0.1"):
        connection = super().connect(name, host)
        if isinstance(connection.protocol, MemberProtocol):
            connection.protocol.next_event = connection.protocol.objects.next_event
        return connection


def told(make, subscriptions, history, linked, settings, services=("tv",), inbus=True):
    """What comes of a history: every byte that anybody is given, the counters, and what the journal says of traffic."""
    network = make(**settings)
    senders = [
        network.member(**{"routing-id": f"r{number}"}, **subscription)
        for number, subscription in enumerate(subscriptions)
    ]
    senders.append(network.business(receive="no_echo"))
    watcher = network.watcher()
    for service in services:
        senders[1].send({"event": "services/register", "name": service})
        watcher.connection.send_bytes(spp.subscribe(service))
        if inbus:
            network.udp.subscribe(service)
    everybody = [*senders, watcher, *([network.server()] if linked else [])]
    slow = senders[2].connection.protocol.link
    slow.pauseProducing()
    for number, sent, places in history:
        stream = b"".join(sent)
        cuts = sorted(place % (len(stream) + 1) for place in places)
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            senders[number % len(senders)].connection.send_bytes(stream[start:end])
    slow.resumeProducing()
    network.reactor.advance(0)
    given_out = [each.connection.take() for each in everybody] + [network.udp.sent]
    given_out += [network.bus.last(service, EVERYTHING) for service in services]
    for each in everybody:
        each.connection.close()
    return given_out, network.bus.counters, [record.event for record in network.journal.records]


@given(
    st.lists(st.sampled_from(SUBSCRIPTIONS), min_size=3, max_size=3),
    histories,
    st.booleans(),
    st.sampled_from([{}, {}, {"strict": True}, {"max_outbound": 600}]),
)
@example([{}, {}, {}], [(0, [b'{"id":1,"natures":[]}\0', b'{"id":1,"id":2}\0'], [])], False, {})
def test_a_run_comes_to_the_same_as_its_objects(subscriptions, history, linked, settings):
    expected = told(OneByOne, subscriptions, history, linked, settings)
    assert told(Network, subscriptions, history, linked, settings) == expected


@given(
    st.lists(st.lists(publications, max_size=8), max_size=3),
    st.sampled_from([("tv",), ("tv", "radio")]),
    st.booleans(),
    st.sampled_from([{}, {"max_packet": 12}, {"max_last_value": 1}]),
)
@example([[published("tv", b"1"), published("nobody", b"2"), published("tv", b"3")]], ("tv",), False, {})
@example([[published("tv", b"1"), published("radio", b"2"), published("tv", b"3")]], ("tv", "radio"), False, {})
@example([[published("tv", b"1"), published("tv", b"123"), published("tv", b"3")]], ("tv",), False, {"max_packet": 12})
def test_what_a_run_publishes_comes_to_the_same(sent, services, inbus, settings):
    publishing = ([{}] * 3, [(1, run, []) for run in sent], False, settings, services, inbus)
    assert told(Network, *publishing) == told(OneByOne, *publishing)


class InTurns(Network):
    """A server whose clients are read in turns of the reactor, many in each."""

    def connect(self, name, host="10.0.0.1"):
        connection = super().connect(name, host)
        connection.protocol.factory.in_turns = True
        return connection

    def member(self, **fields):
        member = super().member(**fields)
        self.reactor.advance(0)
        return member


@given(st.lists(st.sampled_from(SUBSCRIPTIONS), min_size=3, max_size=3), histories, st.booleans())
@example([{}, {}, {}], [(0, [b'{"event":"ping"}\0'], []), (3, [b'{"event":"ping"}\0'], [])], False)
def test_what_is_put_off_to_the_end_of_a_turn_comes_to_the_same(subscriptions, history, linked):
    expected = told(Network, subscriptions, history, linked, {})
    assert told(InTurns, subscriptions, history, linked, {}) == expected


@each_row("is_compiled", [True, False])
def test_several_who_send_in_one_turn_get_no_echo(is_compiled):
    network = InTurns()
    if not is_compiled:
        network.bus.compiled_router.make = None
    members = [network.member(receive_mode="no_echo") for _ in range(3)]
    drain(members)
    for turn in range(2):
        for number, member in enumerate((*members, *members)):
            member.connection.send_bytes(b'{"type":"a/b","id":"%d %d"}\0' % (turn, number))
        got = [[head["id"] for head in member.heads()] for member in members]
        assert got == [[f"{turn} {each}" for each in range(6) if each % 3 != number] for number in range(3)]


ROUTES = [b'["ann","cellar"]', b'["ann","attic","cellar"]', b'["bob"]', b"[]", b'["hall"]', b'["ann", "cellar"]', b"7"]
far_frames = st.builds(
    lambda frame, route, number: frame.replace(b"}\0", b',"route":%b}\0' % route).replace(
        b'"id":"1"', b'"id":%d' % number
    ),
    frames,
    st.sampled_from([*ROUTES[:1] * 4, *ROUTES]),
    st.integers(0, 20),
)
far_histories = st.lists(
    st.tuples(st.integers(0, 5), st.one_of(st.lists(far_frames, max_size=12), runs), st.lists(st.integers(0, 999))),
    max_size=6,
)


def relayed(make, subscriptions, history, settings):
    """What comes of what two servers pass on; every third piece is a member's."""
    network = make(**settings)
    members = [network.member(**{"routing-id": f"r{number}"}, **each) for number, each in enumerate(subscriptions)]
    servers = [network.server(), network.server("attic")]
    watcher = network.watcher()
    members[1].send({"event": "services/register", "name": "tv"})
    far = {"event": "services/register", "name": "radio", "routing-id": "ann"}
    servers[0].send({**far, "route": ["ann", "cellar"]})
    for service in ("tv", "radio"):
        watcher.connection.send_bytes(spp.subscribe(service))
        network.udp.subscribe(service)
    for number, sent, places in history:
        sender = [servers[0], servers[1], members[number % len(members)]][number % 3]
        stream = b"".join(sent)
        cuts = sorted(place % (len(stream) + 1) for place in places)
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            sender.connection.send_bytes(stream[start:end])
    network.reactor.advance(0)
    everybody = [*members, *servers, watcher]
    given_out = [each.connection.take() for each in everybody] + [network.udp.sent]
    for each in everybody:
        each.connection.close()
    return given_out, network.bus.counters, [record.event for record in network.journal.records]


@given(
    st.lists(st.sampled_from(SUBSCRIPTIONS), min_size=3, max_size=3),
    far_histories,
    st.sampled_from([{}, {}, {"max_seen": 2}]),
)
@example([{}] * 3, [(0, [b'{ "id":1 , "x":2,"route":["ann","cellar"]}\0'] * 2, [])], {})
def test_what_servers_pass_on_in_runs_comes_to_the_same(subscriptions, history, settings):
    assert relayed(Network, subscriptions, history, settings) == relayed(OneByOne, subscriptions, history, settings)


def test_metadata_without_room_for_this_server_goes_no_further():
    network = Network(max_metadata=100)
    member, cellar = network.member(), network.server()
    member.received()
    most = 100 + MAX_ADDED - len(',"hall"')
    for length in (most, most + 1, most - 1):
        begin, end = b'{"id":%d,"x":"' % length, b'","route":["ann","cellar"]}'
        cellar.connection.send_bytes(begin + b"x" * (length - len(begin) - len(end)) + end + b"\0")
    assert [head["id"] for head in member.heads()] == [most, most - 1]
    assert network.bus.counters["metadata-too-large"] == 1
    assert network.bus.counters["link-objects"] == 3


def test_several_who_send_in_a_turn_make_one_piece():
    network = InTurns()
    senders = [network.member(receive_mode="none") for _ in range(3)]
    written = pieces_written_to(network.member())
    for number, sender in enumerate(senders):
        sender.send({"id": number})
    assert written == []
    network.reactor.advance(0)
    assert [piece.count(b"\0") for piece in written] == [3]


def pieces_written_to(client):
    """What a client is sent from now on, as it is handed to the transport."""
    client.connection.take()
    written = []
    client.connection.protocol.transport.write = written.append
    return written


def test_who_comes_and_goes_in_a_turn_is_announced_in_one_piece():
    network = InTurns()
    reader = network.member()
    written = pieces_written_to(reader)
    network.journal.hold()
    late = [network.connect("objects") for _ in range(3)]
    for each in late:
        each.send_bytes(encode({"event": "routing/subscribe"}))
    network.journal.release()
    late[0].close()
    assert written == []
    network.reactor.advance(0)
    assert [piece.count(b"routing/subscribe/notify") for piece in written] == [3]
    assert [piece.count(b"routing/disconnect") for piece in written] == [1]
    given = [each.take().count(b"routing/subscribe/notify") for each in late[1:]]
    assert given == [1, 0]  # Of those who came later.


def test_what_is_for_one_alone_goes_in_one_piece_in_its_place():
    network = Network()
    sender, one, other = network.member(receive_mode="none"), network.member(), network.member()
    written = [pieces_written_to(each) for each in (one, other)]
    to = [None, one.routing_id, [one.routing_id, other.routing_id], None, one.routing_id]
    heads = [{"id": number, **({} if each is None else {"to": each})} for number, each in enumerate(to)]
    sender.connection.send_bytes(b"".join(map(encode, heads)))
    ids = [[json.loads(said)["id"] for said in piece.split(b"\0") if said] for pieces in written for piece in pieces]
    assert ids == [[0, 1, 2, 3, 4], [0, 2, 3]]


def test_who_joins_in_a_turn_is_given_what_is_sent_after_that():
    network = InTurns()
    senders = [network.member(receive_mode="none") for _ in range(2)]
    senders[0].send({"id": "before"})
    senders[1].send({"id": "before, too"})
    late = network.connect("objects")
    late.send_bytes(encode({"event": "routing/subscribe"}))
    senders[0].send({"id": "after"})
    network.reactor.advance(0)
    given = late.take()
    assert given.count(b'"id":"after"') == 1
    assert b"before" not in given


def test_what_a_sender_sends_behind_its_own_limit_goes_nowhere():
    """What is sent to make room for another sender's run may be more than the next sender takes."""
    object_ = encode({"type": "text/plain", "id": "1"}, b"x" * 100)
    network = Network(max_outbound=150)
    slow, other = network.member(receive_mode="no_echo"), network.member(receive_mode="no_echo")
    slow.connection.protocol.link.pauseProducing()
    network.bus.flush = lambda: None
    other.connection.send_bytes(object_ * 2)
    slow.connection.send_bytes(object_ * 5)
    del network.bus.flush
    network.bus.flush()
    assert slow.connection.protocol.traffic.objects_in == 2
    assert len([name for name in other.names() if name == "text/plain"]) == 1


# Many groups are asked what they want for each new type, so few such objects are routed in one slice.
MEMBERS = 100
OBJECTS = 200


@pytest.mark.parametrize("ending", ["}", " }"], ids=["plain", "not plain"])
@pytest.mark.parametrize("is_linked", [False, True], ids=["member", "server"])
def test_a_batch_ends_after_many_groups_were_asked(ending, is_linked, monkeypatch):
    network = Network()
    for number in range(MEMBERS):
        network.member(types=[f"nothing/{number}"])
    receiver = network.member(types=["new/*"])
    sender = network.server() if is_linked else network.member(receive_mode="no_echo", types="none")
    route = ',"route":["far","cellar"]' if is_linked else ""
    receiver.heads()
    asked = []
    is_over = Input.slice_is_over

    def looked(read):
        asked.append(network.bus._receivers.groups_asked)
        return is_over(read)

    monkeypatch.setattr(Input, "slice_is_over", looked)
    before = network.bus._receivers.groups_asked
    texts = [f'{{"type":"new/{number}","id":"{number}"{route}{ending}\0' for number in range(OBJECTS)]
    sender.connection.send_bytes("".join(texts).encode())
    assert [head["type"] for head in receiver.heads()] == [f"new/{number}" for number in range(OBJECTS)]
    assert asked[-1] - before >= OBJECTS * MEMBERS
    most = max(after - earlier for earlier, after in zip([before, *asked], asked, strict=False))
    assert most <= (batch.MOST_NEW_PLANS + 2) * (MEMBERS + 2)
