"""All servers at once: each once, with the sessions of its own, and every link between them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from twisted.internet.defer import Deferred, succeed

from bussrv.admin.servers.asking import Answered, AskedServer
from bussrv.admin.servers.facts import LinkSummary
from bussrv.admin.servers.peers import EVERY, Peers
from tests.admin.scene import Admin
from tests.admin.servers.test_asking import SUMMARY


class Answering:
    """Stands in the place of the thread: servers answer what is said of them, by URL."""

    def __init__(self) -> None:
        self.answers: dict[str, Answered | Deferred[Answered]] = {}
        self.asked: list[str] = []

    def __call__(self, ask: Any) -> Deferred[Answered]:
        url = ask.__self__._asked.url
        self.asked.append(url)
        answer = self.answers[url]
        return answer if isinstance(answer, Deferred) else succeed(answer)


def scene(*urls: str, **answers: Answered | Deferred[Answered]) -> tuple[Admin, Answering]:
    """A server that asks these, and how they answer."""
    admin, answering = Admin(), Answering()
    answering.answers = {**dict.fromkeys(urls, Answered(problem="gone")), **answers}
    peers = admin.site.shared.peers = Peers(admin.site.server, answering)
    peers.use(AskedServer(url, None, None) for url in answering.answers)
    peers.start()
    return admin, answering


def net(admin: Admin) -> Any:
    answer = admin.client().ask("/api/v1/net")
    assert answer.status == 200, answer.body
    return answer.json


def servers(admin: Admin) -> dict[str, Any]:
    return {each["server"] or each["url"]: each for each in net(admin)["servers"]}


def links(admin: Admin) -> dict[tuple[str, str], str]:
    return {(each["one"], each["other"]): each["state"] for each in net(admin)["links"]}


def advertise(server: Any, routing_id: str, *route: str, **fields: Any) -> None:
    """A linked server tells of a session."""
    server.send({"event": "routing/subscribe/notify", "routing-id": routing_id, "route": list(route), **fields})


def test_every_link_of_a_triangle_is_known() -> None:
    """Two neighbours that are linked with each other, and a server after one of them."""
    admin = Admin()
    attic, cellar = admin.server("attic"), admin.server("cellar")
    for server, other in ((attic, "cellar"), (cellar, "attic")):
        advertise(server, other, other, server.routing_id, role="server")
    advertise(cellar, "barn", "barn", "cellar", role="server")
    advertise(attic, "barn", "barn", "cellar", "attic", role="server")
    here = admin.server_id
    known = {("attic", "cellar"): "known", ("barn", "cellar"): "known"}
    assert links(admin) == {**known, ("attic", here): "up", ("cellar", here): "up"}
    assert servers(admin).keys() == {"attic", "barn", "cellar", here}


def test_a_session_counts_once_at_its_own_server() -> None:
    """Both neighbours tell of it."""
    admin = Admin()
    attic, cellar = admin.server("attic"), admin.server("cellar")
    admin.member()
    advertise(attic, "tv", "tv", "attic")
    advertise(cellar, "tv", "tv", "attic", "cellar")
    advertise(cellar, "lamp", "lamp", "barn", "cellar")
    found = servers(admin)
    assert {name: each["sessions"] for name, each in found.items()} == {
        "attic": 1,
        "barn": 1,
        "cellar": 0,
        admin.server_id: 1,
    }
    assert net(admin)["sessions"] == 3


def test_peers_say_how_they_are() -> None:
    link = LinkSummary(server="barn", state="up", since=SUMMARY.time, round_trip=0.002, waiting_bytes=7)
    attic = replace(SUMMARY, status="degraded", degraded=["disk"], links=[link])
    admin, _ = scene("http://gone", **{"http://attic": Answered(attic, None, 0.01, 90.0)})
    found = servers(admin)
    assert (found["attic"]["status"], found["attic"]["degraded"]) == ("degraded", ["disk"])
    assert (found["attic"]["clock_ahead"], found["attic"]["round_trip"]) == (90.0, 0.01)
    assert (found["http://gone"]["status"], found["http://gone"]["problem"]) == ("unreachable", "gone")
    assert (found["barn"]["source"], found["barn"]["status"]) == ("link", "not-asked")
    (only,) = net(admin)["links"]
    assert (only["one"], only["other"], only["round_trip"], only["waiting_bytes"]) == ("attic", "barn", 0.002, 7)


def test_a_link_that_one_end_lost_is_down() -> None:
    lost = LinkSummary(server="barn", state="down", since=SUMMARY.time, reason="idle-timeout")
    admin, _ = scene(**{"http://attic": Answered(replace(SUMMARY, links=[lost]))})
    (only,) = net(admin)["links"]
    assert (only["state"], only["reason"]) == ("down", "idle-timeout")


def test_a_server_that_is_gone_keeps_its_last_figures() -> None:
    admin, answering = scene(**{"http://attic": Answered(SUMMARY)})
    assert servers(admin)["attic"]["status"] == "ready"
    answering.answers["http://attic"] = Answered(problem="gone")
    admin.pass_time(EVERY)
    found = servers(admin)["attic"]
    assert (found["status"], found["sessions"], found["seen"]) == ("unreachable", 3, "2023-11-14T22:13:20.000000Z")
    assert net(admin)["sessions"] == 0


def test_the_server_itself_and_second_addresses_are_left_out() -> None:
    """All servers may have the same list."""
    admin, _ = scene(
        **{
            "http://here": Answered(replace(SUMMARY, server="here", boot="boot")),
            "http://attic": Answered(SUMMARY),
            "http://attic.example": Answered(SUMMARY),
        }
    )
    assert servers(admin).keys() == {admin.server_id, "attic"}


def test_a_slow_server_is_asked_once_at_a_time() -> None:
    slow: Deferred[Answered] = Deferred()
    admin, answering = scene(**{"http://slow": slow, "http://attic": Answered(SUMMARY)})
    admin.pass_time(2 * EVERY)
    assert answering.asked.count("http://slow") == 1
    assert answering.asked.count("http://attic") == 3
    slow.callback(Answered(replace(SUMMARY, server="slow", boot="s")))
    assert "slow" in servers(admin)


def test_a_reload_keeps_what_is_known_of_those_that_stay() -> None:
    admin, answering = scene(**{"http://attic": Answered(SUMMARY), "http://barn": Answered(problem="gone")})
    answering.answers["http://attic"] = Deferred()
    admin.site.shared.peers.use([AskedServer("http://attic", "new", None)])
    assert servers(admin).keys() == {admin.server_id, "attic"}


def test_servers_are_a_collection() -> None:
    admin, _ = scene("http://gone", **{"http://attic": Answered(SUMMARY)})
    found = admin.client().ask("/api/v1/servers?sort=-sessions&lost_objects=0").json["items"]
    assert [each["server"] for each in found] == ["attic", admin.server_id]


def test_a_summary_has_the_links_and_own_sessions() -> None:
    admin = Admin()
    admin.server("attic")
    admin.member()
    found = admin.client().ask("/api/v1/summary").json
    assert (found["server"], found["sessions"], found["degraded"]) == (admin.server_id, 1, ["ports"])
    (link,) = found["links"]
    assert (link["server"], link["state"], link["waiting_bytes"]) == ("attic", "up", 0)
