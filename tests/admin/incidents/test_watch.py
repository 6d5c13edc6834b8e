"""A server judges itself: its journal, its health, its clock; and operators take note."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bussrv import events as ev
from bussrv.admin.incidents.earlier import read_earlier
from bussrv.admin.incidents.known import MOST, MOST_OF_A_KIND, Known, KnownIncidents
from bussrv.admin.incidents.troubles import SETTLED, About, Failing, Troubles
from bussrv.admin.incidents.watch import IncidentWatch
from bussrv.admin.servers.asking import Answered, AskedServer
from bussrv.admin.servers.peers import Peer
from bussrv.errors import JournalUnavailable
from bussrv.incidents.judging import GRAVE, Incident, is_incident
from bussrv.incidents.sums import Sums
from bussrv.incidents.tally import QUIET
from bussrv.incidents.words import WELL
from bussrv.journal.record import Record, format_time
from bussrv.journal.recovery import Recovered
from tests.admin.scene import BEARER, Admin
from tests.admin.servers.test_asking import SUMMARY
from tests.audit.journals import write_journal
from tests.formats.network import MovedClock
from tests.incidents.histories import EVERY_KIND, SECOND, records


class Watched(Admin):
    """A server that is watched."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.told: list[tuple[str, bool]] = []
        self.view.incidents.listen(lambda known, is_over: self.told.append((known.row.what, is_over)))
        self.watch = IncidentWatch(self.view, MovedClock(self.reactor), Recovered(), are_hidden=False)
        self.watch.start()

    def fail(self, times: int = 1, **about: Any) -> None:
        for _ in range(times):
            event = ev.AuthFailed(**{"claimed": "ann", "peer": "192.0.2.1:5", "reason": "bad-credentials", **about})
            self.bus.registry.note(event)
        self.pass_time(3)

    def items(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client().ask("/api/v1/incidents").json["items"]
        return found


def test_an_incident_is_shown_and_told_until_it_is_over() -> None:
    server = Watched()
    server.fail(9)
    assert (server.items(), server.told) == ([], [])
    server.fail()
    (shown,) = server.items()
    assert (shown["kind"], shown["what"], shown["over"], shown["needs_look"]) == (
        "logins", "10 failed logins", False, True
    )  # fmt: skip
    server.fail()
    (later,) = server.items()
    assert (later["id"], later["number"], server.told) == (shown["id"], 11, [("address", False)])
    server.pass_time(QUIET + 5)
    (over,) = server.items()
    assert (over["id"], over["over"], over["number"]) == (shown["id"], True, 11)
    assert server.told == [("address", False), ("address", True)]


def test_an_operator_takes_note_of_it_in_the_journal() -> None:
    server = Watched()
    server.fail(10)
    (shown,) = server.items()
    path = f"/api/v1/incidents/{shown['id']}/acknowledge"
    assert server.client().ask(path, "POST", b"{}").status == 401
    assert server.client().ask("/api/v1/incidents/nope/acknowledge", "POST", b"{}", **BEARER).code == "no-such-incident"
    assert server.client().ask(path, "POST", b'{"note":"%s"}' % (b"x" * 501), **BEARER).code == "bad-body"
    assert server.client().ask(path, "POST", b'{"note":"a test"}', **BEARER).status == 200
    (noted,) = server.items()
    assert (noted["needs_look"], noted["noted_by"], noted["note"]) == (False, "admin-token", "a test")
    (event,) = server.events(ev.IncidentAcknowledged)
    assert (event.incident, event.kind, event.actor, event.note) == (shown["id"], "logins", "admin-token", "a test")
    assert server.view.incidents.verdict == WELL


def test_nobody_takes_note_while_the_journal_fails() -> None:
    server = Watched()
    server.fail(10)
    (shown,) = server.items()
    server.journal.fail(JournalUnavailable("the disk is full"))
    answer = server.client().ask(f"/api/v1/incidents/{shown['id']}/acknowledge", "POST", b"{}", **BEARER)
    assert answer.code == "journal-unavailable"
    assert server.items()[0]["needs_look"]


class Clocks:
    """The time of day, which somebody sets, and a clock that nobody does."""

    def __init__(self) -> None:
        self.utc, self.mono = 1_000 * SECOND, 0
        self.troubles = Troubles("hall", lambda: self.utc, lambda: self.mono)

    def look(self, seconds: float, failing: dict[str, str], set_by: float = 0.0) -> list[tuple[str | None, int, bool]]:
        self.mono += int(seconds * SECOND)
        self.utc += int((seconds + set_by) * SECOND)
        self.troubles.look({About("trouble", name): Failing(said) for name, said in failing.items()})
        rows = [row for row in self.troubles.rows() if is_incident(row)]
        return [(row.subject, row.number, row.lasts) for row in rows]


def test_a_check_that_fails_for_long_enough_is_an_incident() -> None:
    clocks, link = Clocks(), {"disk": "too little is free"}
    assert clocks.look(1, link) == []
    assert clocks.look(SETTLED - 1, link) == []
    assert clocks.look(1, link) == [("disk", 1, True)]
    assert clocks.look(1, {}) == [("disk", 1, False)]
    # It is back for a moment only: it is the same incident, and has begun twice.
    assert clocks.look(1, link) == [("disk", 1, True)]
    assert clocks.look(SETTLED, link) == [("disk", 2, True)]
    clocks.look(1, {})
    clocks.troubles.forget(clocks.utc + 1)
    assert clocks.look(1, {}) == []


def test_a_clock_that_is_set_is_an_incident() -> None:
    clocks = Clocks()
    assert clocks.look(2, {}, 0.5) == []
    assert clocks.look(2, {}, -3600) == [("clock", 1, False)]
    assert clocks.look(2, {}) == [("clock", 1, False)]
    assert clocks.look(2, {}, 5) == [("clock", 2, False)]
    assert [row.detail for row in clocks.troubles.rows()] == ["it was set 5.0 s forward"]


def test_a_clock_that_is_set_neither_begins_nor_ends_a_condition() -> None:
    clocks, disk = Clocks(), {"disk": "too little is free"}
    clocks.look(1, disk)
    # It does not last for longer because of that.
    assert clocks.look(1, disk, 3600) == [("clock", 1, False)]
    assert clocks.look(1, disk, -7200) == [("clock", 2, False)]
    # Nor for less: ten seconds have passed.
    assert clocks.look(SETTLED, disk) == [("disk", 1, True), ("clock", 2, False)]
    clocks.troubles.forget(clocks.utc)
    assert clocks.look(1, disk) == [("disk", 1, True)]
    # What ended before the clock was set back is over all the same.
    clocks.look(1, {})
    clocks.utc -= 100 * QUIET * SECOND
    clocks.troubles.forget(clocks.utc - QUIET * SECOND)
    assert [*clocks.troubles.rows()] == []


def test_each_lost_link_is_an_incident_with_what_was_lost() -> None:
    server = Watched(expect_link=("shed",))
    server.calls.append("drain")  # An operator who stops the server knows that.
    attic = server.server("attic")
    server.pass_time(SETTLED + 4)
    (shed,) = server.items()
    assert (shed["kind"], shed["subject"], shed["over"]) == ("link", "shed", False)
    assert shed["what"].startswith("shed was never linked since the start, ")
    server.bus.registry.note(ev.LinkGap(routing_id="attic", origin="barn", lost=3))
    server.bus.registry.note(ev.LinkGap(routing_id="attic", origin="barn"))
    server.pass_time(3)
    gap = next(each for each in server.items() if each["subject"] == "attic")
    assert (gap["title"], gap["what"]) == ("Objects of another server were lost", "at least 4 objects lost")
    attic.connection.close()
    server.pass_time(SETTLED + 4)
    lost = next(each for each in server.items() if each["subject"] == "attic")
    assert (lost["title"], lost["address"], lost["id"]) == (
        "A link to another server is lost", "127.0.0.1:4711", gap["id"]
    )  # fmt: skip
    assert lost["what"].endswith("connection-lost; at least 4 objects lost")
    server.bus.links.forget("attic")
    server.bus.links.forget("attic")
    assert [each.routing_id for each in server.events(ev.LinkForgotten)] == ["attic"]
    server.pass_time(QUIET + 4)
    assert [(each["subject"], each["over"]) for each in server.items()] == [("attic", True), ("shed", False)]


def test_the_clock_of_another_server_is_an_incident() -> None:
    """Half of the time that its answer took is not known, and is no difference."""
    server = Watched()
    asked = AskedServer("https://attic.example:7280", None, None)
    peer = Peer(asked)
    server.watch._peers = lambda: [peer]
    for ahead, round_trip, is_one in ((2.5, 2.0, False), (-1.9, 0.0, False), (None, None, False), (-3.0, 1.0, True)):
        peer.answered = Answered(SUMMARY, None, round_trip, ahead)
        server.pass_time(SETTLED + 4)
        assert [each["kind"] for each in server.items()] == ["clock"] * is_one
    (shown,) = server.items()
    assert (shown["subject"], shown["address"], shown["what"]) == (
        "attic", "https://attic.example:7280", "it is 3.0 s behind, give or take 0.5 s"
    )  # fmt: skip


def test_the_clock_of_a_linked_server_is_an_incident() -> None:
    """It says its time over the link, so nobody has to name its admin interface."""
    server = Watched()
    attic = server.server("attic", directory=True)
    for ahead, is_one in ((1.5, False), (-3.0, True), (0.1, True)):
        attic.heads()
        server.pass_time(SETTLED)
        assert any(each["event"] == "ping" for each in attic.heads())
        server.bus.link_clocks.ask()
        (ping,) = attic.heads()
        about = {"in-reply-to": ping["id"], "to": server.server_id, "route": ["attic"]}
        attic.send({"event": "pong", "time": format_time(server.bus.utc() + int(ahead * 1e6)), **about})
        shown = next(each for each in net(server) if each["server"] == "attic")
        assert (shown["clock_ahead"], shown["round_trip"]) == (ahead, 0.0)
        server.pass_time(SETTLED + 4)
        assert [each["kind"] for each in server.items()] == ["clock"] * is_one
    (found,) = server.items()
    assert (found["subject"], found["what"]) == ("attic", "it is 3.0 s behind, give or take 0 s; that is over")
    # The records say so, for the audit.
    written = [each for each in server.events(ev.LinkClock) if isinstance(each, ev.LinkClock)]
    assert [(each.routing_id, each.ahead, each.doubt) for each in written] == [
        ("attic", -3_000_000, 0), ("attic", 100_000, 0)
    ]  # fmt: skip


def net(server: Watched) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.client().ask("/api/v1/net").json["servers"]
    return found


def known_of(*rows: Incident) -> KnownIncidents:
    found = KnownIncidents()
    found.go_on(rows)
    return found


def test_incidents_that_nobody_looked_at_are_forgotten_last() -> None:
    found = KnownIncidents()
    for number in range(MOST):
        found.over(Incident(what="outage", subject=f"s{number}", seconds=99.0, begin=number, end=number))
    noted: Known = next(iter([each for each in found if each.row.subject == "s300"]))
    event = ev.IncidentAcknowledged(incident=noted.id, kind="outage", since=300, actor="ann")
    found.note(Record(1, 1, 1, "hall", "b1", event))
    for number in (1_000, 1_001):
        found.over(Incident(what="outage", subject=f"s{number}", seconds=99.0, begin=number, end=number))
    left = {each.row.subject for each in found}
    assert len(left) == MOST
    assert {"s300", "s0"} & left == set()
    assert {"s1", "s1000", "s1001"} <= left


def test_the_gravest_incident_gives_the_verdict() -> None:
    rows = (Incident(what="address", address="::1", number=99), Incident(what="takeover", number=1, subject="s"))
    found = known_of(*rows)
    assert (found.to_look_at, found.verdict) == (
        (2, 3), "2 incidents need a look. The worst: another user took over a session."
    )  # fmt: skip
    assert known_of(rows[0]).verdict == "One incident needs a look: an address reconnected again and again."


def test_a_storm_of_one_kind_leaves_room_for_the_others() -> None:
    storm = [Incident(what="address", number=12, address=f"192.0.2.{number}") for number in range(250)]
    found = known_of(*storm, Incident(what="takeover", number=1, subject="b0.1"))
    assert len([*found]) == MOST_OF_A_KIND + 1
    assert (found.not_kept, found.to_look_at) == (150, (MOST_OF_A_KIND + 1, GRAVE))
    # The same ones go on. Where one is over, another one is known.
    found.go_on(storm[1:])
    going_on = [each for each in found if not each.is_over]
    assert len(going_on) == MOST_OF_A_KIND
    assert {each.row.address for each in going_on} == {f"192.0.2.{number}" for number in range(1, 101)}


def test_incidents_of_before_a_restart_keep_their_ids(tmp_path: Path) -> None:
    """A journal that is read again has the same incidents, and the same notes."""
    steps = [step for each in EVERY_KIND[:-1] for step in each]
    written = records("hall", steps)
    live = KnownIncidents()
    sums = Sums("hall", live.over)
    sums.take(written)
    live.go_on(sums.incidents(written[-1].time))
    seen = next(iter(live))
    event = ev.IncidentAcknowledged(incident=seen.id, kind="guessing", since=0, actor="ann")
    last = written[-1]
    written.append(Record(last.seq + 1, last.time, last.mono, last.server, last.boot, event))
    journal = write_journal(tmp_path / "hall", written[:20], written[20:])
    found = read_earlier(journal, "hall", 0, len(written))
    assert {each.id for each in found} == {each.id for each in live}
    after = KnownIncidents()
    after.add(found)
    assert all(each.is_over for each in after)
    noted = after.get(seen.id)
    assert noted is not None
    assert noted.note is not None
    assert noted.note.actor == "ann"
