"""The client of Business Object."""

import pytest

from bussrv.client.business import BusError, BusinessClient
from bussrv.errors import RemoteProtocolError


@pytest.fixture
def answered(serve):
    """``answered(reply, payload)``: a client whose first object gets that reply, and the list that object is put in."""
    clients = []

    def connect(reply, payload=b""):
        def script(peer):
            asked.append(peer.object())
            peer.tell({"event": "between"})
            peer.tell({**reply, "in-reply-to": asked[0][0].pop("id")}, payload)
            peer.until_closed()

        asked = []
        clients.append(BusinessClient(port=serve(script)))
        return clients[-1], asked

    yield connect
    for client in clients:
        client.close()


def test_registering(answered):
    client, asked = answered({"event": "client/register/reply", "routing-id": "c1"})
    assert client.routing_id is None
    assert client.register()["routing-id"] == client.routing_id == "c1"
    assert asked == [({"event": "client/register", "receive": "all", "subscribe": "all"}, b"")]
    assert client.receive().metadata == {"event": "between"}


def test_registering_with_everything(answered):
    client, asked = answered({"event": "client/register/reply", "routing-id": "c1"})
    client.register("no_echo", ["text/*"], "tv", "ann", "c1", ["news"])
    about = {"name": "tv", "user": "ann", "unique-routing-id": "c1", "routing-ids": ["news"]}
    assert asked == [({"event": "client/register", "receive": "no_echo", "subscribe": ["text/*"], **about}, b"")]


def test_an_error_in_answer_is_raised(answered):
    client, _ = answered({"event": "error", "reason": "bad-subscription", "message": "Wrong."})
    with pytest.raises(BusError) as caught:
        client.register(receive="some")
    assert caught.value.reason == "bad-subscription"


def test_services(answered):
    client, asked = answered({"event": "services/register/reply", "name": "clock"})
    assert client.register_service("clock")["name"] == "clock"
    assert asked == [({"event": "services/register", "name": "clock"}, b"")]


@pytest.mark.parametrize(("name", "sent"), [(None, {}), ("clock", {"name": "clock"})])
def test_unregistering_services(answered, name, sent):
    client, asked = answered({"event": "services/unregister/reply"})
    client.unregister_service(name)
    assert asked == [({"event": "services/unregister", **sent}, b"")]


def test_requests(answered):
    client, asked = answered({"event": "services/reply", "type": "text/plain"}, b"12:00")
    assert client.request("clock").payload == b"12:00"
    assert asked == [({"event": "services/request", "name": "clock"}, b"")]


def test_the_list_of_services(answered):
    client, asked = answered({"event": "services/list/reply", "type": "application/json"}, b'["a","\xc3\xa9"]')
    assert client.services() == ["a", "é"]
    assert asked == [({"event": "services/list"}, b"")]


@pytest.mark.parametrize("payload", [b"", b"[", b"\xff", b"{}", b'["a",1]', b"[" * 10**5], ids=lambda value: value[:9])
def test_a_list_of_services_that_is_none(answered, payload):
    client, _ = answered({"event": "services/list/reply", "type": "application/json"}, payload)
    with pytest.raises(RemoteProtocolError, match="services/list/reply") as caught:
        client.services()
    assert caught.value.reason == "bad-json"
