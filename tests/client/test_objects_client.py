"""The client of the Object System."""

import threading

import pytest

from bussrv.client import _stream, objects
from bussrv.client._stream import MAX_KEPT
from bussrv.client.business import BusinessClient
from bussrv.client.objects import BusError, Object, ObjectsClient
from bussrv.errors import RemoteProtocolError


def member(script):
    """A script that subscribes the client before it does anything else."""

    def subscribed(peer):
        asked, _ = peer.object()
        peer.tell({"event": "routing/subscribe/reply", "in-reply-to": asked["id"], "routing-id": "c1"})
        script(peer)

    return subscribed


@pytest.fixture
def join(serve):
    """``join(script)``: a client that is subscribed with a server that goes on with the script."""
    clients = []

    def connect(script, **arguments):
        clients.append(ObjectsClient(port=serve(member(script)), **arguments))
        clients[-1].subscribe()
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


def test_subscribing(serve):
    def script(peer):
        asked.append(peer.object())
        peer.tell({"event": "routing/subscribe/notify", "routing-id": "c0"})
        peer.tell({"event": "routing/subscribe/reply", "in-reply-to": "another", "routing-id": "no"})
        about = {"routing-id": "c1", "routing-ids": ["news"]}
        peer.tell({"event": "routing/subscribe/reply", "in-reply-to": asked[0][0]["id"], **about})
        peer.until_closed()

    asked = []
    with ObjectsClient(port=serve(script)) as client:
        assert client.routing_id is None
        reply = client.subscribe(receive_mode="no_echo", types=["text/*"], routing_ids=["news"], role="x")
        (fields, payload), identifier = asked[0], asked[0][0].pop("id")
        assert (fields, payload) == (
            {
                "event": "routing/subscribe",
                "receive_mode": "no_echo",
                "types": ["text/*"],
                "routing-ids": ["news"],
                "role": "x",
            },
            b"",
        )
        about = {"routing-id": "c1", "routing-ids": ["news"]}
        assert reply == {"event": "routing/subscribe/reply", "in-reply-to": identifier, **about}
        assert client.routing_id == "c1"
        assert client.receive().metadata["routing-id"] == "c0"
        assert client.receive().metadata["routing-id"] == "no"


def test_subscribing_again_if_too_many_logins_wait(serve):
    def script(peer):
        for reason in ("too-many-logins", "too-many-logins", "bad-credentials"):
            asked, _ = peer.object()
            assert (asked["event"], asked["secret"]) == ("routing/subscribe", "s3cret")
            peer.tell({"event": "error", "in-reply-to": asked["id"], "reason": reason, "message": "no"})
        peer.until_closed()

    with (
        ObjectsClient(port=serve(script)) as client,
        pytest.raises(BusError) as refused,
    ):
        client.subscribe(user="ann", secret="s3cret")
    assert refused.value.reason == "bad-credentials"


def test_sending_and_receiving(join):
    def script(peer):
        for _ in range(3):
            fields, payload = peer.object()
            peer.tell({**fields, "route": ["c2"]}, payload)
        peer.until_closed()

    client = join(script)
    client.send({"type": "text/plain", "a": [1, {"b": None}]}, b"hello")
    client.send({"event": "x"})
    client.send({"type": "text/plain", "size": 99}, b"\0\xff")
    assert client.receive() == Object(
        {"type": "text/plain", "a": [1, {"b": None}], "size": 5, "route": ["c2"]}, b"hello"
    )
    assert client.receive() == Object({"event": "x", "route": ["c2"]})
    assert client.receive().payload == b"\0\xff"


def test_waiting_for_an_object(join):
    def script(peer):
        for name in "abc":
            peer.tell({"event": name})
        peer.until_closed()

    client = join(script)
    assert client.wait_for(lambda each: each.metadata["event"] == "b").metadata == {"event": "b"}
    assert [client.receive().metadata["event"] for _ in "ac"] == ["a", "c"]


def test_registering_and_serving_a_request(join):
    def script(peer):
        fields, _ = peer.object()
        asked.append(fields)
        peer.tell({"event": "services/register/reply", "in-reply-to": fields["id"], "name": "clock"})
        peer.tell({"event": "services/request", "name": "clock", "id": "r1", "route": ["c2", "s1"]})
        asked.append(peer.object())
        fields, _ = peer.object()
        asked.append(fields)
        peer.tell({"event": "services/unregister/reply", "in-reply-to": fields["id"], "name": "clock"})
        fields, _ = peer.object()
        asked.append(fields)
        peer.tell({"event": "services/unregister/reply", "in-reply-to": fields["id"]})
        peer.until_closed()

    asked = []
    client = join(script)
    reply = client.register("clock")
    assert asked[0] == {"event": "services/register", "name": "clock", "id": reply["in-reply-to"]}
    client.reply(client.receive(), b"12:00", type="text/plain")
    assert client.unregister("clock")["name"] == "clock"
    answer = {
        "event": "services/reply",
        "name": "clock",
        "in-reply-to": "r1",
        "to": "c2",
        "type": "text/plain",
        "size": 5,
    }
    assert asked[1] == (answer, b"12:00")
    assert asked[2] == {"event": "services/unregister", "name": "clock", "id": asked[2]["id"]}
    client.unregister()
    assert asked[3] == {"event": "services/unregister", "id": asked[3]["id"]}
    assert len({fields["id"] for fields in (asked[0], asked[2], asked[3])}) == 3


@pytest.mark.parametrize("request_", [{}, {"id": None, "route": []}, {"route": "c2"}, {"route": [], "id": None}])
def test_replying_to_a_request_that_says_little(join, request_):
    def script(peer):
        answers.append(peer.object())
        peer.until_closed()

    answers = []
    client = join(script)
    client.reply(Object(request_))
    client.close()
    assert answers == [({"event": "services/reply"}, b"")]


def test_requesting(join):
    def script(peer):
        asked.append(peer.object())
        fields = asked[0][0]
        peer.tell(fields, asked[0][1])
        peer.tell({"event": "services/reply", "in-reply-to": "another"})
        about = {"event": "services/reply", "in-reply-to": fields["id"], "type": "text/plain"}
        peer.tell(about, b"12:00")
        asked.append(peer.object())
        peer.tell({"event": "services/reply", "in-reply-to": asked[1][0]["id"]})
        peer.until_closed()

    asked = []
    client = join(script)
    reply = client.request("clock", b"zone", type="text/plain", time_zone="UTC")
    assert reply.payload == b"12:00"
    assert reply.metadata["in-reply-to"] == asked[0][0]["id"]
    about = {"event": "services/request", "name": "clock", "time-zone": "UTC", "id": asked[0][0]["id"]}
    assert asked[0] == ({**about, "type": "text/plain", "size": 4}, b"zone")
    assert client.receive().payload == b"zone"
    assert client.receive().metadata["in-reply-to"] == "another"
    client.request("clock")
    assert asked[1] == ({"event": "services/request", "name": "clock", "id": asked[1][0]["id"]}, b"")
    assert asked[0][0]["id"] != asked[1][0]["id"]


def test_a_payload_without_a_type_is_sent_as_bytes(join):
    def script(peer):
        fields, _ = peer.object()
        peer.tell({"in-reply-to": fields["id"], "was": fields["type"]})
        peer.until_closed()

    assert join(script).request("clock", b"x").metadata["was"] == "application/octet-stream"


@pytest.mark.parametrize("call", ["subscribe", "register", "request", "discover"])
def test_an_error_in_answer_is_raised(join, call):
    def script(peer):
        fields, _ = peer.object()
        peer.tell({"event": "error", "in-reply-to": "another", "reason": "bad-attribute", "message": "Other."})
        about = {"reason": "bad-service-name", "message": "No such name."}
        peer.tell({"event": "error", "in-reply-to": fields["id"], **about})
        peer.until_closed()

    client = join(script)
    with pytest.raises(BusError, match=r"No such name\. \(bad-service-name\)") as caught:
        getattr(client, call)(*(["x"] if call != "subscribe" else []))
    assert (caught.value.reason, caught.value.message) == ("bad-service-name", "No such name.")
    assert client.receive().metadata["message"] == "Other."


def test_an_error_that_says_little(join):
    def script(peer):
        peer.tell({"event": "error", "in-reply-to": peer.object()[0]["id"]})
        peer.until_closed()

    with pytest.raises(BusError, match="the server gave no message") as caught:
        join(script).register("x")
    assert caught.value.reason == "unknown"


@pytest.mark.parametrize("name", [None, "clock"])
def test_discovering(join, name):
    def script(peer):
        question, ping = peer.object()[0], peer.object()[0]
        asked.append((question, ping))
        for provider in ("c2", "c3"):
            about = {"name": "clock", "routing-id": provider, "protocol": "objects"}
            peer.tell({"event": "services/discovery/reply", "in-reply-to": question["id"], **about})
            peer.tell({"event": "between"})
        peer.tell({"event": "pong", "in-reply-to": ping["id"]})
        peer.until_closed()

    asked = []
    client = join(script)
    assert [found["routing-id"] for found in client.discover(name)] == ["c2", "c3"]
    question, ping = asked[0]
    identifier = question.pop("id")
    assert question == {"event": "services/discovery", **({"name": name} if name else {})}
    assert ping == {"event": "ping", "id": ping["id"]}
    assert ping["id"] != identifier
    assert [client.receive().metadata for _ in range(2)] == [{"event": "between"}] * 2


def test_discovering_what_nobody_provides(join):
    def script(peer):
        question, ping = peer.object()[0], peer.object()[0]
        about = {"reason": "no-such-service", "message": "Nobody."}
        peer.tell({"event": "error", "in-reply-to": question["id"], **about})
        peer.tell({"event": "pong", "in-reply-to": ping["id"]})
        peer.until_closed()

    assert join(script).discover("clock") == []


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda client: client.subscribe(), "no answer to routing/subscribe came from 127.0.0.1 port"),
        (lambda client: client.register("x"), "no answer to services/register came from"),
        (lambda client: client.discover(), "no answer to services/discovery came from"),
        (lambda client: client.request("x", timeout=0.02), "no answer to services/request came from .* within 0.02 s"),
        (lambda client: client.receive(), "nothing more came from .* within 0.01 s"),
    ],
)
def test_waiting_times_out_with_a_sentence(serve, call, sentence):
    port = serve(lambda peer: peer.until_closed())
    with ObjectsClient(port=port, timeout=0.01) as client, pytest.raises(TimeoutError, match=sentence):
        call(client)


def test_a_reply_that_comes_too_late_is_an_object_like_any_other(join):
    def script(peer):
        fields, _ = peer.object()
        peer.object()
        peer.tell({"event": "services/reply", "in-reply-to": fields["id"]})
        peer.until_closed()

    client = join(script)
    with pytest.raises(TimeoutError):
        client.request("clock", timeout=0)
    client.send({"event": "go"})
    assert client.receive().metadata["event"] == "services/reply"


def test_the_end_of_a_connection_comes_with_the_error_before_it(join):
    def script(peer):
        peer.object()
        peer.tell({"event": "error", "reason": "bad-json", "message": "That is not JSON."})

    client = join(script)
    with pytest.raises(
        ConnectionError, match=r"closed the connection, after the error: That is not JSON\. \(bad-json\)"
    ) as caught:
        client.request("clock")
    assert isinstance(caught.value.__cause__, BusError)
    assert caught.value.__cause__.reason == "bad-json"
    assert client.receive().metadata["event"] == "error"


def test_sending_into_a_broken_connection_tells_the_unread_error(join):
    def script(peer):
        peer.tell({"event": "x"})
        peer.tell({"event": "error", "reason": "slow-consumer", "message": "Too slow."})

    client = join(script)
    sentence = r"(broke: .*|closed the connection), after the error: Too slow\. \(slow-consumer\)"
    with pytest.raises(ConnectionError, match=sentence) as caught:  # noqa: PT012
        while True:
            client.send({"event": "y"})
    assert isinstance(caught.value.__cause__, BusError)
    assert [client.receive().metadata["event"] for _ in range(2)] == ["x", "error"]


def test_a_broken_connection_comes_with_the_error_before_it(join):
    def script(peer):
        peer.tell({"event": "error", "reason": "bad-json", "message": "No."})
        peer.object()
        peer.reset()

    client = join(script)
    assert client.receive().metadata["event"] == "error"
    client.send({"event": "go"})
    with pytest.raises(ConnectionError, match=r"broke: .*, after the error: No\. \(bad-json\)") as caught:
        client.receive()
    assert isinstance(caught.value.__cause__, BusError)


def test_the_end_of_the_connection_without_an_error_before_it(join):
    def script(peer):
        peer.object()
        peer.tell({"event": "error", "reason": "bad-attribute", "message": "Old."})
        peer.tell({"event": "x"})

    client = join(script)
    with pytest.raises(ConnectionError, match=r"closed the connection$") as caught:
        client.request("clock")
    assert caught.value.__cause__ is None


def test_an_object_with_a_bad_attribute_is_told_once(join):
    def script(peer):
        peer.send(b'{"event":7,"size":3}\0abc{"event":"x"}\0')
        peer.until_closed()

    client = join(script)
    with pytest.raises(RemoteProtocolError) as caught:
        client.receive()
    assert caught.value.reason == "bad-attribute"
    assert client.receive().metadata == {"event": "x"}


def test_the_largest_payload(join):
    def script(peer):
        peer.tell({"type": "x"}, bytes(100))
        peer.tell({"type": "x"}, bytes(101))
        peer.until_closed()

    client = join(script, max_payload=100)
    assert client.receive().payload == bytes(100)
    with pytest.raises(RemoteProtocolError) as caught:
        client.receive()
    assert caught.value.reason == "payload-too-large"


def test_what_is_no_json_is_not_sent(join):
    client = join(lambda peer: peer.until_closed() and pytest.fail("something was sent"))
    with pytest.raises(TypeError):
        client.send({"event": object()})
    with pytest.raises(ValueError, match="surrogates"):
        client.send({"event": "\ud800"})


def test_the_loop_of_a_service_keeps_nothing(join):
    def script(peer):
        registered = peer.object()[0]["id"]
        peer.tell({"event": "services/request", "id": "early", "name": "clock", "route": ["ann"]})
        peer.tell({"event": "services/register/reply", "in-reply-to": registered})
        for number in range(2 * MAX_KEPT):
            peer.tell({"event": "routing/subscribe/notify", "routing-id": f"client-{number}"})
        peer.tell({"event": "services/request", "id": "other", "name": "misspelled", "route": ["bob"]})
        peer.tell({"event": "services/request", "id": "late", "service": "clock", "route": ["bob"]})
        for name in ("early", "late"):
            fields, payload = peer.object()
            assert (fields["in-reply-to"], payload) == (name, b"12:00")

    client = join(script)
    client.register("clock")
    asked = client.requests(timeout=10)
    for name in ("early", "late"):
        request = next(asked)
        assert request.metadata["id"] == name
        client.reply(request, b"12:00")
    assert (len(client._kept), client.forgotten) == (0, 0)
    with pytest.raises(ConnectionError):
        next(asked)


def test_the_loop_of_a_service_drops_nothing_kept_before(join, monkeypatch):
    def script(peer):
        for event in ("kept", "awaited", "dropped", "services/request"):
            peer.tell({"event": event})
        peer.until_closed()

    client = join(script)
    client.wait_for(lambda each: each.metadata["event"] == "awaited")
    monkeypatch.setattr(_stream, "MAX_KEPT", 1)
    assert next(client.requests()).metadata == {"event": "services/request"}
    assert client.receive().metadata == {"event": "kept"}


def test_the_loop_of_a_service_may_be_limited_in_time(join):
    client = join(lambda peer: peer.until_closed())
    with pytest.raises(TimeoutError, match=r"no request came from 127\.0\.0\.1 port .* within 0\.01 s"):
        next(client.requests(timeout=0.01))


def test_what_a_subscription_cannot_say_is_refused(serve):
    with (
        ObjectsClient(port=serve(lambda peer: peer.until_closed())) as client,
        pytest.raises(TypeError, match=r"subscribe has no 'tpyes'; there are: receive_mode, .*types"),
    ):
        client.subscribe(tpyes=["text/*"])


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.send({"type": "text/plain"}, "hello"),
        lambda client: client.request("tv", "hello"),
        lambda client: client.reply(Object({"id": "1"}), "hello"),
    ],
)
@pytest.mark.parametrize("make", [ObjectsClient, BusinessClient])
def test_a_text_is_no_payload(serve, make, call):
    with (
        make(port=serve(lambda peer: peer.until_closed())) as client,
        pytest.raises(TypeError, match=r"a payload is bytes, not str: encode it"),
    ):
        call(client)


def test_what_is_like_bytes_is_a_payload(join):
    payloads = (b"ab", bytearray(b"ab"), memoryview(b"ab"))

    def script(peer):
        assert [peer.object() for _ in payloads] == [({"type": "a/b", "size": 2}, b"ab")] * 3

    client = join(script)
    for payload in payloads:
        client.send({"type": "a/b"}, payload)


def test_metadata_is_a_dict(serve):
    with (
        ObjectsClient(port=serve(lambda peer: peer.until_closed())) as client,
        pytest.raises(TypeError, match="metadata is a dict, not bytes"),
    ):
        client.send(b"{}")


@pytest.mark.parametrize("vocabulary", ["objects", "business"])
def test_a_client_that_receives_nothing_waits_for_no_answers(serve, vocabulary):
    """It says so at once, and sends nothing. It may subscribe anew, and waits again then."""

    def script(peer):
        for _ in range(2):
            asked, _ = peer.object()
            about = {"in-reply-to": asked["id"], "routing-id": "c1"}
            peer.tell({"event": f"{asked['event']}/reply", **about})
        asked, _ = peer.object()
        seen.append(asked["event"])
        peer.tell({"event": "services/register/reply", "in-reply-to": asked["id"], "name": "tv"})
        assert peer.until_closed() == b""

    seen = []
    with (ObjectsClient if vocabulary == "objects" else BusinessClient)(port=serve(script)) as client:
        if vocabulary == "objects":
            join, register = client.subscribe, client.register
            join(receive_mode="none")
            calls = [client.ping, client.discover, lambda: client.discover("tv")]
        else:
            join, register = client.register, client.register_service
            join(receive="none")
            calls = [client.services, client.unregister_service]
        assert client.routing_id == "c1"
        for call in (lambda: register("tv"), lambda: client.request("tv"), lambda: next(client.requests()), *calls):
            with pytest.raises(RuntimeError, match="receive mode 'none'"):
                call()
        join()
        register("tv")
    assert seen == ["services/register"]


def test_a_subscription_for_requests_has_rules_of_its_own(serve):
    def script(peer):
        subscribed.append(peer.object()[0])
        peer.tell({"event": "routing/subscribe/reply", "in-reply-to": subscribed[0].pop("id"), "routing-id": "c1"})
        asked, _ = peer.object()
        peer.tell({"event": "pong", "in-reply-to": asked["id"], "routing-id": "hall"})
        peer.until_closed()

    subscribed = []
    with ObjectsClient(port=serve(script)) as client:
        for name in ("types", "receive_mode", "receive-mode", "receive", "subscriptions"):
            with pytest.raises(TypeError, match=f"subscribe_for_requests has no '{name}'"):
                client.subscribe_for_requests(**{name: "all"})
        assert client.subscribe_for_requests(user="ann", secret="s")["routing-id"] == "c1"
        assert client.ping()["routing-id"] == "hall"
    about = {"user": "ann", "secret": "s"}
    assert subscribed == [{"event": "routing/subscribe", "subscriptions": ["@services/reply", "@error"], **about}]


WAITING = [
    lambda client: client.receive(timeout=None),
    lambda client: client.wait_for(lambda each: True, timeout=None),
    lambda client: client.request("tv", timeout=None),
    lambda client: next(client.requests()),
]


@pytest.mark.parametrize("call", WAITING)
def test_a_client_may_wait_for_ever_and_only_one_thread_uses_it(join, call):
    """Its own time-out does not count. Another thread would take events away, or mix up the bytes of TLS."""

    def script(peer):
        assert go_on.wait(30)
        peer.tell({"event": "services/request", "name": "tv", "in-reply-to": "q"})
        peer.until_closed()

    def wait():
        waiting.set()
        found.append(call(client))

    go_on, waiting, found = threading.Event(), threading.Event(), []
    client = join(script)
    client.timeout = 0.01
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(objects, "new_id", lambda: "q")
        thread = threading.Thread(target=wait)
        thread.start()
        assert waiting.wait(30)
        while client._used.acquire(blocking=False):
            client._used.release()
        thread.join(10 * client.timeout)
        assert thread.is_alive()
        for other in (
            lambda: client.send({"event": "x"}),
            lambda: client.receive(0),
            lambda: client.wait_for(lambda each: True, 0),
            lambda: client.request("tv"),
            lambda: client.discover(),
            lambda: client.subscribe(),
            lambda: next(client.requests(0)),
            client.close,
        ):
            with pytest.raises(RuntimeError, match="another thread uses this ObjectsClient"):
                other()
        go_on.set()
        thread.join(30)
    assert [each.metadata["event"] for each in found] == ["services/request"]
    with pytest.raises(TimeoutError):
        client.receive()
