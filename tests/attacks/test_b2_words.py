"""B2: clients cannot speak as servers."""

import contextlib
from pathlib import Path

from bussrv.client.business import BusinessClient
from bussrv.client.objects import ObjectsClient
from tests.forked import ForkedServer

WORDS = (
    "routing/subscribe/notify",
    "Routing/Subscribe/Notification",
    "ROUTING/disconnect",
    "routing/neighbors/Reply",
    "client/register/reply",
    "services/list/REPLY",
    "Abboe/Close/Notify",
)


def test_what_only_servers_say_is_refused_from_all_clients(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(ForkedServer(tmp_path / "journal"))
        victim = stack.enter_context(ObjectsClient(port=server.port("objects")))
        victim.subscribe(subscriptions=["*"])
        liar = stack.enter_context(ObjectsClient(port=server.port("objects")))
        liar.subscribe(receive_mode="no_echo")
        elder = stack.enter_context(BusinessClient(port=server.port("business")))
        elder.register(receive="no_echo")
        for client in (liar, elder):
            for word in WORDS:
                client.send({"event": word, "id": word, "routing-id": "forged", "to": victim.routing_id})
                while (told := client.receive(10).metadata).get("in-reply-to") != word:
                    pass
                assert (told["event"], told["reason"]) == ("error", "reserved-event")
            client.send({"event": "ERROR", "in-reply-to": 1, "reason": "forged", "to": victim.routing_id})
        liar.send({"event": "end"})
        heard = []
        while (fields := victim.receive(10).metadata).get("event") != "end":
            heard.append(fields)
        assert not [each for each in heard if "forged" in each.values()]
