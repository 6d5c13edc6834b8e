"""The port for linked servers and uplinks alone."""

from ipaddress import ip_network

from tests.formats.network import Member, Network


def test_a_client_is_refused_and_a_server_links():
    network = Network(link_allow=[ip_network("10.0.0.1")])
    client = Member(network.connect("servers"))
    client.send({"event": "routing/subscribe", "id": 1})
    assert [(head["event"], head["reason"], head["in-reply-to"]) for head in client.heads()] == [
        ("error", "bad-subscription", 1)
    ]
    assert not client.connection.is_open
    server = Member(network.connect("servers"))
    server.send({"event": "routing/subscribe", "role": "server", "routing-id": "cellar"})
    assert [head["event"] for head in server.heads()][:2] == ["routing/subscribe/reply", "routing/subscribe"]
    assert network.bus.links.neighbors() == ["cellar"]


def test_what_a_client_sends_before_goes_nowhere():
    network = Network()
    other = network.member()
    client = Member(network.connect("servers"))
    client.send({"event": "services/register", "name": "tv", "id": 1})
    client.send({"type": "text/plain"}, b"on")
    assert other.heads() == client.heads() == []
    assert not network.registry.state.services
