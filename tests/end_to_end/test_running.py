"""The server as a user runs it: a process, real sockets, a real journal."""

import signal
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.client import inbus
from bussrv.client.business import BusinessClient
from bussrv.client.inbus import InbusSubscriber
from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.wire import spp
from tests.end_to_end.conftest import Start
from tests.end_to_end.journals import events_of, records


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_told_to_stop_it_closes_the_journal_and_exits_with_0(launch: Start, journal: Path, number: int) -> None:
    server = launch("--services", "off", "--drain-seconds", "0.2")
    with ObjectsClient(port=server.port("objects")) as client:
        client.subscribe()
        assert server.stop(number) == 0
    assert isinstance(records(journal)[-1].event, ev.ServerStopped)
    (closed,) = events_of(journal, ev.SessionClosed)
    assert closed.reason == "server-stopped"
    assert not any("Traceback" in line for line in server.lines)


def test_the_banner_says_what_listens_and_where_the_journal_is(launch: Start, journal: Path) -> None:
    server = launch()
    said = "\n".join(server.lines)
    for name, (host, port) in server.addresses.items():
        assert f"{name} on " in said
        assert f"{host}:{port}" in said
    assert sorted(server.addresses) == ["admin", "business", "inbus", "objects", "spp"]
    assert all(host == "127.0.0.1" for host, _ in server.addresses.values())
    assert f"journal in {journal}" in said
    assert "journal: too young to say for how many days its disk lasts" in said
    assert server.lines[-1].endswith("bussrv is ready")


def test_what_is_published_in_one_format_reaches_every_other(start: Start) -> None:
    server = start()
    with (
        ObjectsClient(port=server.port("objects")) as service,
        BusinessClient(port=server.port("business")) as office,
        SppClient(port=server.port("spp")) as watcher,
        InbusSubscriber("tv", server.addresses["inbus"]) as device,
    ):
        service.subscribe()
        service.register("tv")
        office.register()
        watcher.wait_for(lambda event: event == spp.Offer("tv"))
        watcher.subscribe("tv")
        assert watcher.wait_for(lambda event: isinstance(event, spp.Info)) == spp.Info("tv", b"")

        service.send({"type": "application/x", "sender": "tv"}, b"\0on\xff")
        assert watcher.wait_for(lambda event: isinstance(event, spp.Info)) == spp.Info("tv", b"\0on\xff")
        assert device.receive(10).payload == b"\0on\xff"
        assert office.wait_for(lambda each: bool(each.payload)).payload == b"\0on\xff"
        assert service.wait_for(lambda each: bool(each.payload)).payload == b"\0on\xff"

        inbus.publish("gauge", b"21.5", app_type=7, server=server.addresses["inbus"])
        watcher.wait_for(lambda event: event == spp.Offer("gauge"))
        measured = office.wait_for(lambda each: each.metadata.get("sender") == "gauge")
        assert (measured.payload, measured.metadata["app-type"]) == (b"21.5", 7)


def test_killed_it_comes_back_with_what_it_acknowledged(start: Start, journal: Path) -> None:
    server = start("--services", "off")
    client = ObjectsClient(port=server.port("objects"))
    device = InbusSubscriber("news", server.addresses["inbus"])
    client.subscribe(user="ann")
    # Datagrams are not answered; a change that is asked for behind them is.
    client.register("tv")
    server.process.kill()
    server.wait()
    acknowledged = [record.event for record in records(journal)]
    assert any(isinstance(event, ev.ServiceRegistered) and event.service == "tv" for event in acknowledged)
    assert not any(isinstance(event, (ev.SessionClosed, ev.ServerStopped)) for event in acknowledged)

    again = start("--services", "off")
    assert any("in an orderly way: 1 session is closed now" in line for line in again.lines)
    inbus.publish("news", b"back", server=again.addresses["inbus"])
    assert device.receive(10).payload == b"back"
    with ObjectsClient(port=again.port("objects")) as other:
        other.subscribe()
        assert [found["name"] for found in other.discover()] == ["news"]
    assert again.stop() == 0
    device.close()
    client.close()

    (recovered,) = events_of(journal, ev.ServerRecovered)
    assert isinstance(recovered, ev.ServerRecovered)
    assert recovered.sessions_closed == 1
    crashed = [event for event in events_of(journal, ev.SessionClosed) if event.reason == "server-crashed"]
    opened = [event for event in acknowledged if isinstance(event, ev.SessionOpened) and not event.persistent]
    assert [event.session for event in crashed] == [event.session for event in opened]
    unregistered = [event.service for event in events_of(journal, ev.ServiceUnregistered)]
    assert unregistered == ["tv", "news"]
    assert [record.seq for record in records(journal)] == list(range(1, len(records(journal)) + 1))


def test_inbus_subscriptions_end_when_the_format_is_switched_off(start: Start, journal: Path) -> None:
    server = start("--services", "off")
    with InbusSubscriber("news", server.addresses["inbus"]), ObjectsClient(port=server.port("objects")) as client:
        client.subscribe()
        assert server.stop() == 0
    assert start("--inbus", "off", "--services", "off").stop() == 0
    reasons = [event.reason for event in events_of(journal, ev.SessionClosed)]
    assert reasons == ["server-stopped", "format-off"]


def test_without_a_journal_nothing_is_written(start: Start, journal: Path) -> None:
    server = start("--journal", "off")
    with ObjectsClient(port=server.port("objects")) as client:
        client.subscribe()
        client.register("tv")
    assert server.stop() == 0
    assert not journal.exists()


def test_the_server_id_stays_with_the_journal(start: Start, journal: Path) -> None:
    start("--server-id", "hall").stop()
    with ObjectsClient(port=(server := start()).port("objects")) as client:
        client.subscribe()
        client.send({"event": "ping", "id": "1"})
        assert client.wait_for(lambda each: each.metadata["event"] == "pong").metadata["routing-id"] == "hall"
    server.stop()
    assert {record.server for record in records(journal)} == {"hall"}
    assert len({record.boot for record in records(journal)}) == 2


def test_the_command_line_goes_before_a_configuration_file(start: Start, journal: Path, tmp_path: Path) -> None:
    config = tmp_path / "bussrv.toml"
    config.write_text('server-id = "from-file"\nmax-payload = 10\nannounce = "off"\n')
    server = start("--config", str(config), "--server-id", "from-line")
    with ObjectsClient(port=server.port("objects")) as client:
        client.subscribe()
        client.send({"type": "text/plain"}, b"0123456789a")
        refusal = client.wait_for(lambda each: each.metadata["event"] == "error").metadata
        assert refusal["reason"] == "payload-too-large"
        assert refusal["message"] == "size is 11, the most is 10 bytes"
    assert server.stop() == 0
    assert {record.server for record in records(journal)} == {"from-line"}
