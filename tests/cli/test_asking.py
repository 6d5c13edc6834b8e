"""The commands that ask and steer a running server, at a real one."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bussrv.cli.admin_client import AdminClient, ServerSentEvent
from bussrv.cli.asking import age
from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.testing.server import PATIENCE
from bussrv.wire import spp
from tests.cli.conftest import Place, run
from tests.forked import ForkedServer

pytestmark = pytest.mark.processes

HOSTILE = "eve\x1b]0;x\x07\u202e"


@pytest.fixture(scope="module")
def lamp(place: Place) -> Iterator[ObjectsClient]:
    """A client that claims a name which would steer a terminal, and provides a service that somebody subscribed to."""
    with ObjectsClient(port=place.server.port("objects")) as client, SppClient(port=place.server.port("spp")) as screen:
        client.subscribe(receive_mode="no_echo", user=HOSTILE, name="a lamp")
        client.register("hall/lamp 1")
        screen.subscribe("hall/lamp 1")
        screen.wait_for(lambda event: isinstance(event, spp.Info))
        yield client


def token(place: Place) -> Path:
    return place.home / "journal.admin-token"


def records(*words: object) -> list[dict[str, object]]:
    status, said, complained = run(*words, "--json")
    assert (status, complained) == (0, "")
    return [json.loads(line) for line in said.splitlines()]


def session_of(client: ObjectsClient) -> str:
    (found,) = records("sessions", "--where", f"routing_id={client.routing_id}")
    return str(found["session"])


def test_lists(place: Place, lamp: ObjectsClient) -> None:
    (found,) = records("services", "--where", "service=hall/*")
    assert (found["service"], found["providers"], found["subscribers"]) == ("hall/lamp 1", 1, 1)
    status, said, _ = run("services", "--where", "service=hall/*")
    heading, row = said.splitlines()
    assert (status, heading.split()[:3]) == (0, ["SERVICE", "PROVIDERS", "SUBSCRIBERS"])
    assert row.split() == ["hall/lamp", "1", "1", "1", "objects", "spp"]
    assert len(records("sessions", "--limit", "2")) == 2
    assert run("links") == (0, "none\n", "")
    assert run("services", "--where", "nonsense")[0] == 2
    assert "there is no parameter 'nonsense'" in run("services", "--where", "nonsense=1")[2]


def test_names_of_strangers_do_not_steer_the_terminal(place: Place, lamp: ObjectsClient) -> None:
    for words in (["sessions"], ["session", session_of(lamp)], ["session", session_of(lamp), "--history"]):
        status, said, _ = run(*words)
        assert status == 0
        assert "eve" in said
        assert all(line.isprintable() for line in said.splitlines())
        assert all(line.isprintable() for line in run(*words, "--json")[1].splitlines())


def test_who_is_of_every_wire_format(place: Place, lamp: ObjectsClient) -> None:
    status, said, _ = run("who", "hall/lamp 1")
    provider, subscriber = said.split("\n\n")
    assert (status, provider.splitlines()[0], subscriber.splitlines()[0]) == (0, "1 provider", "1 subscriber")
    assert str(lamp.routing_id) in provider
    assert " spp " in subscriber
    asked = f"127.0.0.1:{place.server.port('admin')}"
    but = "(members of the object network that receive everything, such as bussrv sub, are not shown)"
    complaint = (
        f"bussrv who: nobody provides 'not/there\\x1b', is subscribed to it, or is called so; asked {asked} {but}\n"
    )
    assert run("who", "not/there\x1b") == (1, "", complaint)


def test_a_session_is_closed_by_who_may_and_its_history_says_so(place: Place) -> None:
    with ObjectsClient(port=place.server.port("objects")) as client:
        client.subscribe()
        session = session_of(client)
        status, _, complained = run("close", session)
        assert status == 4
        assert complained.endswith(": use --token-file, --user with --secret-file, or a profile\n")
        wrong = place.home / "wrong-token"
        wrong.write_text("x" * 43 + "\n")
        wrong.chmod(0o600)
        assert run("close", session, "--token-file", wrong)[0] == 4
        assert run("close", session, "--token-file", token(place)) == (0, "", "")
        with pytest.raises(ConnectionError):
            client.wait_for(lambda each: False, 10)
    assert run("close", session, "--token-file", token(place))[0] == 1
    assert run("session", session) == (
        1,
        "",
        f"bussrv session: there is no session '{session}'; --history shows a closed one\n",
    )
    *_, last = records("session", session, "--history")
    assert (last["event"], last["reason"]) == ("session.closed", "closed-by-operator")
    status, said, _ = run("session", session, "--history")
    assert (status, said.splitlines()[-1].split()[2]) == (0, "session.closed")
    assert run("session", "never.1", "--history")[0] == 1


def test_events_are_those_of_the_journal_from_any_record_on(place: Place, lamp: ObjectsClient) -> None:
    first, second = records("events", "--after", "0", "--count", "2")
    assert (first["seq"], first["event"], second["seq"]) == (1, "server.started", 2)
    (found,) = records("events", "--after", "1", "--event", "service.registered", "--service", "hall/lamp 1", "-n", "1")
    assert found["routing_id"] == lamp.routing_id
    journal = (next((place.home / "journal").glob("*.jsonl"))).read_text().splitlines()
    assert found in map(json.loads, journal)


def test_records_that_the_server_cannot_send_are_one_sentence(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [
        ServerSentEvent("49", "skipped", '{"count":49}'),
        ServerSentEvent("50", "server.started", '{"seq":50,"event":"server.started"}'),
        ServerSentEvent("51", "skipped", '{"count":1}'),
        ServerSentEvent("52", "server.stopped", '{"seq":52,"event":"server.stopped"}'),
    ]
    monkeypatch.setattr(AdminClient, "resuming", lambda *arguments: iter(sent))
    status, said, complained = run("events", "--after", "0", "--count", "2")
    assert (status, [line.split()[1:] for line in said.splitlines()]) == (
        0,
        [["50", "server.started"], ["52", "server.stopped"]],
    )
    assert complained.splitlines() == [
        "bussrv events: records 1 to 49 are not in the journal any more, or cannot be read",
        "bussrv events: record 51 is not in the journal any more, or cannot be read",
    ]
    assert run("events", "--json", "--count", "2")[1].count("\n") == 2


def test_links_say_which_server_dialed_and_which_never_linked(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = "2026-11-21T14:02:03.000000Z"
    lost = {"state": "down", "lost": moment}
    found = [
        {**lost, "routing_id": "attic", "address": "", "dialed": False, "reason": None},
        {**lost, "routing_id": "shed", "address": "10.0.0.9:1", "dialed": False, "reason": "server-stopped"},
        {"routing_id": "yard", "address": "10.0.0.8:1", "dialed": True, "state": "up", "since": moment},
        {"routing_id": None, "address": "tcp:barn:1", "dialed": True, "state": "dialing"},
    ]
    monkeypatch.setattr(AdminClient, "items", lambda *arguments, **query: iter(found))
    heading, *rows = run("links")[1].splitlines()
    columns = {name: heading.index(name) for name in ("DIALED", "LOST", "REASON")}
    shown = [{name: row[at:].split("  ")[0].strip() for name, at in columns.items()} for row in rows]
    assert [each["DIALED"] for each in shown] == ["-", "by the other one", "by this server", "by this server"]
    assert [each["LOST"] == "-" for each in shown] == [True, False, True, True]
    assert [each["REASON"] for each in shown] == ["never linked", "server-stopped", "-", "-"]


def test_servers_are_listed_with_what_is_amiss(place: Place) -> None:
    lines = run("servers")[1].splitlines()
    assert lines[0].split()[:3] == ["SERVER", "STATUS", "VERSION"]
    assert len(lines) == 2
    net = json.loads(run("top", "--all", "--count", "1", "--json")[1])
    assert [each["source"] for each in net["servers"]] == ["here"]
    assert run("top", "--all", "--count", "1")[1].startswith("servers=1 ready=")


def test_a_tap_shows_payloads_only_if_they_are_asked_for(place: Place, lamp: ObjectsClient) -> None:
    ended = threading.Event()

    def publish() -> None:
        with ObjectsClient(port=place.server.port("objects")) as client:
            client.subscribe()
            client.register("tapped")
            while not ended.wait(0.02):
                client.send({"type": "text/plain", "sender": "tapped"}, b"secret \x1b[31m")

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        for words, is_shown in (((), False), (("--payload",), True)):
            status, said, _ = run("tap", "--service", "tapped", "--count", "1", *words)
            assert (status, "secret \\x1b[31m" in said) == (0, is_shown)
            assert "  tapped  text/plain  12 bytes" in said
    finally:
        ended.set()
        thread.join(10)


def test_health_and_reload(place: Place) -> None:
    status, said, _ = run("health")
    assert (status, said.splitlines()[0]) in ((0, "ready"), (0, "degraded"))
    assert records("health")[0]["status"] in ("ready", "degraded")
    assert run("reload")[0] == 4
    status, said, _ = run("reload", "--token-file", token(place))
    assert (status, said) == (0, "changed            no option\nonly at a restart  no option\n")


def test_a_port_of_something_else(place: Place) -> None:
    status, _, complained = run("services", "--server", f"127.0.0.1:{place.server.port('objects')}", "--timeout", "0.5")
    assert status in (3, 5)
    assert complained.count("\n") == 1


def test_a_drain_says_what_ends_and_waits(tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal", ["--drain-seconds", "0.5"]) as server:
        host, port = server.addresses["admin"]
        steer = ["drain", "--server", f"{host}:{port}", "--token-file", str(tmp_path / "journal.admin-token")]
        with ObjectsClient(port=server.port("objects")) as member:
            member.subscribe()
            status, said, _ = run(*steer, "--wait")
            with pytest.raises(ConnectionError) as ended:
                member.wait_for(lambda _: False)
        assert server.process.wait(PATIENCE) == 0
    assert (status, said.splitlines()) == (
        0,
        ["draining: sessions that end within 0.5 s: 1; then the server stops", "the server has stopped"],
    )
    assert "the server was stopped (server-stopped)" in str(ended.value.__cause__)


def test_a_wrong_field_or_command_is_told_the_right_ones(place: Place) -> None:
    assert (
        "sort: there is no field 'nonsense'; there are service, providers, subscribers"
        in run("services", "--sort", "nonsense")[2]
    )
    assert run("sesions")[2] == "bussrv: there is no command 'sesions'; did you mean 'sessions'? (see bussrv --help)\n"
    assert run("journal", "verfy")[2] == (
        "bussrv journal: there is no command 'verfy'; did you mean 'verify'? (see bussrv journal --help)\n"
    )
    assert "did you mean" not in run("quux")[2]


@pytest.mark.parametrize(
    ("passed", "shown"), [(-5, "0 s"), (59, "59 s"), (60, "1 min"), (1_619, "26 min"), (7_199, "1 h"), (200_000, "2 d")]
)
def test_ages(passed: int, shown: str) -> None:
    assert age("2026-11-21T14:02:03.500000Z", 1_795_269_723.5 + passed) == shown
    assert age(None) is None


def test_people_get_ages_and_words_and_programs_get_values(place: Place, lamp: ObjectsClient) -> None:
    shown = run("session", session_of(lamp))[1]
    assert re.search(r"persistent +no\n", shown)
    assert re.search(r"opened +2\d{3}-\S+Z \(\d+ (s|min) ago\)", shown)
    assert re.search(r" \d+ (s|min) ", run("sessions")[1])
    (found,) = records("session", session_of(lamp))
    assert found["persistent"] is False
    assert str(found["opened"]).endswith("Z")
    provider = run("who", "hall/lamp 1")[1].splitlines()[1:3]
    assert provider[0].split()[:5] == ["CLIENT", "SESSION", "FORMAT", "PEER", "HOME"]
    assert " (claimed) " in provider[1]
    assert "127.0.0.1:" in provider[1]
