"""A triangle of this server and two servers that go by ``route`` alone, on plain sockets."""

from __future__ import annotations

from bussrv.client.objects import ObjectsClient
from tests.end_to_end.conftest import Start
from tests.end_to_end.foreign import ForeignServer


def test_copies_for_a_triangle_name_who_else_gets_the_object(start: Start) -> None:
    server = start("--server-id", "hall", "--link-allow", "127.0.0.1")
    port = server.port("objects")
    with (
        ForeignServer("attic", "all") as attic,
        ForeignServer("cellar", ["*"]) as cellar,
        ObjectsClient(port=port) as ann,
    ):
        for each in (attic, cellar):
            each.dial(port)
        ann.subscribe(routing_id="ann", receive_mode="no_echo")
        for number in range(50):
            # Batches and single objects are routed differently through the server.
            ann.send({"type": "text/plain", "id": f"n{number}"}, b"x")
            ann.send({"event": "services/request", "name": "tv", "id": f"r{number}"})
        ann.send({"event": "end", "id": "end"})
        for each, other in ((attic, "cellar"), (cellar, "attic")):
            each.hear(lambda fields: fields.get("event") == "end")
            heard = [fields for fields, _ in each.heard if fields.get("route", [None])[0] == "ann"]
            heard = [fields for fields in heard if not fields.get("event", "").startswith("routing/")]
            assert len(heard) == 101
            assert all(fields["route"] == ["ann", "hall", other] for fields in heard)
        attic.send({"event": "shout", "id": "a", "route": ["bob", "attic", "cellar"]})
        cellar.send({"event": "over", "id": "b", "route": ["eve", "cellar"]})
        shouted = ann.wait_for(lambda each: each.metadata.get("event") == "shout")
        assert shouted.metadata["route"] == ["bob", "attic", "hall", "cellar"]
        attic.hear(lambda fields: fields.get("event") == "over")
        assert not any(fields.get("event") == "shout" for fields, _ in cellar.heard)
        assert server.stop() == 0
