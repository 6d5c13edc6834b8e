"""What all clients of the stream formats do alike, shown with SPP."""

import contextlib
import errno
import inspect
import socket
import threading
import time
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.client import _stream
from bussrv.client._stream import MAX_KEPT, MAX_KEPT_BYTES, Deadline
from bussrv.client.business import BusinessClient
from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.errors import RemoteProtocolError
from bussrv.wire import spp
from tests.tables import each_row

OFFERS = [spp.Offer(name) for name in "abc"]


def offer_all(peer):
    peer.send(b"".join(spp.offer(event.service) for event in OFFERS))
    peer.until_closed()


def test_events_come_in_order(serve):
    with SppClient(port=serve(offer_all)) as client:
        assert [client.next_event() for _ in OFFERS] == OFFERS


def test_events_that_are_not_waited_for_are_kept_in_order(serve):
    with SppClient(port=serve(offer_all)) as client:
        assert client.wait_for(lambda event: event.service == "c") == OFFERS[2]
        assert client.wait_for(lambda event: event.service == "b") == OFFERS[1]
        assert client.next_event() == OFFERS[0]
        with pytest.raises(TimeoutError):
            client.next_event(0)


def test_the_first_awaited_one_is_taken_even_if_others_were_kept(serve):
    with SppClient(port=serve(offer_all)) as client:
        client.wait_for(lambda event: event.service == "c")
        assert client.wait_for(lambda event: True) == OFFERS[0]
        assert client.next_event() == OFFERS[1]


def test_a_predicate_that_raises_loses_nothing(serve):
    with SppClient(port=serve(offer_all)) as client:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                client.wait_for(lambda event: 1 / 0)
        assert [client.next_event() for _ in OFFERS] == OFFERS


def test_an_event_may_come_in_pieces(serve):
    def script(peer):
        for index in range(len(packet)):
            peer.send(packet[index : index + 1])
        peer.until_closed()

    packet = spp.info("clock", bytes(range(200)))
    with SppClient(port=serve(script)) as client:
        assert client.next_event() == spp.Info("clock", bytes(range(200)))


def test_waiting_times_out_with_a_sentence_and_goes_on_later(serve):
    def script(peer):
        peer.send(spp.offer("a")[:9])
        assert peer.exactly(len(go)) == go
        peer.send(spp.offer("a")[9:])
        peer.until_closed()

    go = spp.subscribe("go")
    port = serve(script)
    with SppClient(port=port) as client:
        for timeout, seconds in ((0, "0"), (0.01, "0.01")):
            with pytest.raises(TimeoutError) as caught:
                client.next_event(timeout)
            assert str(caught.value) == f"nothing more came from 127.0.0.1 port {port} within {seconds} s"
            with pytest.raises(TimeoutError) as caught:
                client.wait_for(lambda event: True, timeout)
            assert str(caught.value).startswith("what was waited for did not come from 127.0.0.1")
        client.subscribe("go")
        assert client.next_event() == spp.Offer("a")


def test_waiting_ends_in_time_however_much_else_comes(serve, monkeypatch):
    def script(peer):
        with contextlib.suppress(ConnectionError):
            while True:
                peer.send(spp.offer("a") * 1000)

    monkeypatch.setattr("bussrv.client._stream._FAREWELL", 0.01)
    client = SppClient(port=serve(script))
    client.next_event()
    with pytest.raises(TimeoutError):
        client.wait_for(lambda event: False, 0.05)
    assert client.next_event(0) == spp.Offer("a")
    client.close()


def test_the_timeout_of_the_client_counts_unless_a_call_has_one(serve):
    with SppClient(port=serve(offer_all), timeout=0.01) as client:
        for _ in OFFERS:
            client.next_event(30)
        with pytest.raises(TimeoutError, match=r"within 0\.01 s"):
            client.next_event()


def test_without_a_timeout_it_waits(serve):
    with SppClient(port=serve(offer_all), timeout=None) as client:
        assert client.wait_for(lambda event: event.service == "c") == OFFERS[2]


@pytest.mark.parametrize("end", ["closed", "broken"])
def test_the_end_of_the_connection_comes_after_all_that_arrived(serve, end):
    def script(peer):
        peer.send(spp.offer("a"))
        assert peer.exactly(len(go)) == go
        if end == "broken":
            peer.reset()

    go = spp.subscribe("go")
    port = serve(script)
    with SppClient(port=port) as client:
        client.wait_for(lambda event: event == spp.Offer("a"))
        client.subscribe("go")
        sentence = {
            "closed": f"127.0.0.1 port {port} closed the connection$",
            "broken": "broke: Connection reset by peer",
        }
        with pytest.raises(ConnectionError, match=sentence[end]):
            client.next_event()
        with pytest.raises(ConnectionError, match="closed the connection"):
            client.next_event()


def test_what_was_received_before_the_end_can_still_be_taken(serve):
    def script(peer):
        peer.send(b"".join(spp.offer(event.service) for event in OFFERS))

    with SppClient(port=serve(script)) as client:
        with pytest.raises(ConnectionError):
            client.wait_for(lambda event: False)
        assert [client.next_event() for _ in OFFERS] == OFFERS
        with pytest.raises(ConnectionError):
            client.next_event()


def test_something_malformed_is_told_behind_everything_that_came(serve):
    def script(peer):
        peer.send(spp.offer("a") + b"\0\0\0\1\xff\xff\xff\xff")
        peer.until_closed()

    with SppClient(port=serve(script)) as client:
        assert client.next_event() == spp.Offer("a")
        for _ in range(2):
            with pytest.raises(RemoteProtocolError) as caught:
                client.next_event()
            assert caught.value.reason == "packet-too-large"


def test_nobody_listens(closed_port):
    with pytest.raises(ConnectionError, match=f"cannot connect to 127.0.0.1 port {closed_port}: Connection refused"):
        SppClient(port=closed_port)


def test_an_unknown_host():
    with pytest.raises(ConnectionError, match=r"cannot connect to no-such-host\.invalid port 3002: "):
        SppClient(host="no-such-host.invalid")


def test_nobody_answers(monkeypatch):
    def never(address, timeout):
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", never)
    with pytest.raises(TimeoutError, match=r"192\.0\.2\.1 port 3002 did not take the connection within 2 s"):
        SppClient(host="192.0.2.1", timeout=2)
    with pytest.raises(TimeoutError, match=r"did not take the connection$"):
        SppClient(host="192.0.2.1", timeout=None)


def test_a_server_that_does_not_read_makes_sending_time_out(serve):
    def script(peer):
        assert done.wait(30)

    done = threading.Event()
    client = SppClient(port=serve(script), timeout=0.05)
    with pytest.raises(TimeoutError, match=r"did not take \d+ bytes within 0.05 s; the connection is closed now"):
        client._send(bytes(64 << 20))
    done.set()
    assert client._socket.fileno() == -1
    with pytest.raises(ConnectionError, match="is closed"):
        client.subscribe("clock")


def test_sending_takes_its_time_whatever_the_last_call_waited(serve):
    def script(peer):
        received.append(len(peer.until_closed()))

    received = []
    with SppClient(port=serve(script)) as client:
        with pytest.raises(TimeoutError):
            client.next_event(0)
        client._send(bytes(32 << 20))
    serve.finish()
    assert received == [32 << 20]


def test_a_connection_that_the_system_gives_up_is_no_timeout(serve):
    def give_up(*_):
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    client = SppClient(port=serve(lambda peer: peer.until_closed()))
    connection, client._socket = client._socket, Mock(recv=give_up, sendall=give_up, fileno=client._socket.fileno)
    for call in (client.next_event, lambda: client.subscribe("clock")):
        with pytest.raises(ConnectionError, match="broke: Connection timed out") as caught:
            call()
        assert isinstance(caught.value.__cause__, TimeoutError)
    client._socket = connection
    client.close()


def test_small_packets_are_sent_at_once(serve):
    with SppClient(port=serve(lambda peer: peer.until_closed())) as client:
        assert client._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@each_row(("client", "port"), [(ObjectsClient, 7890), (BusinessClient, 7891), (SppClient, 3002)])
def test_where_a_server_is_expected(client, port):
    parameters = inspect.signature(client).parameters
    assert (parameters["host"].default, parameters["port"].default) == ("127.0.0.1", port)
    assert parameters["timeout"].default == 10


def test_sending_into_a_broken_connection_keeps_what_came_before(serve):
    def script(peer):
        peer.send(spp.offer("a"))
        sent.set()

    sent = threading.Event()
    client = SppClient(port=serve(script))
    assert sent.wait(30)
    # In order or not: what was sent and not read before the server closed decides that.
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1 port .* (broke: |closed the connection)"):  # noqa: PT012
        while True:
            client.subscribe("clock")
    assert client.next_event() == spp.Offer("a")
    client.close()


def test_the_first_thing_that_is_sent_after_the_end_raises(serve):
    with SppClient(port=serve(lambda peer: peer.send(spp.offer("a")))) as client:
        serve.finish()
        for _ in range(2):
            with pytest.raises(ConnectionError, match="closed the connection"):
                client.subscribe("clock")
        assert client.next_event() == spp.Offer("a")
        with pytest.raises(ConnectionError, match="closed the connection"):
            client.next_event()


def test_no_more_is_kept_than_the_limits_say(serve):
    offers = [spp.Offer(str(number)) for number in range(MAX_KEPT + 10)]

    def script(peer):
        peer.send(b"".join(spp.offer(event.service) for event in offers))
        peer.until_closed()

    with SppClient(port=serve(script)) as client:
        assert client.wait_for(lambda event: event == offers[-1]) == offers[-1]
        assert client.forgotten == 10
        assert [client.next_event() for _ in range(MAX_KEPT - 1)] == offers[10:-1]


def test_states_of_services_count_by_their_bytes(serve):
    size = MAX_KEPT_BYTES // 64
    message = bytes(size)

    def script(peer):
        for _ in range(70):
            peer.send(spp.info("tv", message))
        peer.send(spp.offer("end"))
        peer.until_closed()

    with SppClient(port=serve(script), max_packet=2 * size) as client:
        client.wait_for(lambda event: event == spp.Offer("end"), timeout=60)
        assert (client.forgotten, len(client._kept)) == (6, 64)


class Kept:
    """A model of a client: the states of a service that came, as numbers of bytes."""

    def __init__(self, most, most_bytes):
        self.most, self.most_bytes = most, most_bytes
        self.coming, self.kept, self.forgotten = [], [], 0

    def take(self, wanted):
        for index, each in enumerate(self.kept):
            if wanted in (None, each):
                return self.kept.pop(index)
        while self.coming:
            self.kept.append(self.coming.pop(0))
            while len(self.kept) > 1 and (len(self.kept) > self.most or sum(self.kept) > self.most_bytes):
                del self.kept[0]
                self.forgotten += 1
            if wanted in (None, self.kept[-1]):
                return self.kept.pop()
        return None


def taken(client, wanted):
    try:
        event = client.next_event() if wanted is None else client.wait_for(lambda each: len(each.message) == wanted)
    except TimeoutError:
        return None
    return len(event.message)


@given(
    st.lists(st.tuples(st.sampled_from(["come", "next", "wait"]), st.integers(0, 9)), max_size=60),
    st.integers(1, 6),
    st.integers(1, 20),
)
def test_what_is_kept_is_the_end_of_what_came(steps, most, most_bytes):
    model = Kept(most, most_bytes)
    ours, theirs = socket.socketpair()
    with pytest.MonkeyPatch.context() as patches, theirs:
        limits = {"MAX_KEPT": most, "MAX_KEPT_BYTES": most_bytes, "_FAREWELL": 0, "dial": lambda *_: ours}
        for name, value in limits.items():
            patches.setattr(_stream, name, value)
        with SppClient(timeout=0) as client:
            for step, value in steps:
                if step == "come":
                    theirs.sendall(spp.info("tv", bytes(value)))
                    model.coming.append(value)
                else:
                    wanted = value if step == "wait" else None
                    assert taken(client, wanted) == model.take(wanted)
                    assert (len(client._kept), client.forgotten) == (len(model.kept), model.forgotten)


def test_a_closed_client_says_so(serve):
    client = SppClient(port=serve(offer_all))
    client.wait_for(lambda event: event.service == "c")
    client.close()
    client.close()
    assert client._socket.fileno() == -1
    for call in (client.next_event, lambda: client.subscribe("a"), lambda: client.wait_for(lambda event: True)):
        with pytest.raises(ConnectionError, match=r"this client of 127\.0\.0\.1 port .* is closed"):
            call()


def test_leaving_the_context_closes(serve):
    def script(peer):
        received.append(peer.until_closed())

    received = []
    with SppClient(port=serve(script)) as client:
        client.subscribe("clock")
    serve.finish()
    assert received == [spp.subscribe("clock")]
    with pytest.raises(ConnectionError, match="is closed"):
        client.next_event()


def test_closing_reads_on_so_that_what_was_sent_last_arrives(serve, monkeypatch):
    def script(peer):
        peer.send(spp.offer("a") * 1000)
        received.append(peer.until_closed())
        peer.send(bytes(8 << 20))
        everything.set()

    monkeypatch.setattr("bussrv.client._stream._FAREWELL", 30)
    everything, received = threading.Event(), []
    client = SppClient(port=serve(script))
    client.next_event()
    client.subscribe("clock")
    client.close()
    assert everything.is_set()
    assert received == [spp.subscribe("clock")]


def test_closing_does_not_wait_long_for_a_server_that_stays(serve, monkeypatch):
    def script(peer):
        assert done.wait(30)

    monkeypatch.setattr("bussrv.client._stream._FAREWELL", 0.01)
    done = threading.Event()
    client = SppClient(port=serve(script))
    client.close()
    done.set()
    with pytest.raises(ConnectionError):
        client.next_event()


def test_a_deadline_takes_one_last_look(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    deadline = Deadline(5, "too late")
    assert deadline.left() == 5
    now[0] = 104
    assert deadline.left() == 1
    now[0] = 105
    assert deadline.left() == 0
    for _ in range(2):
        with pytest.raises(TimeoutError, match="too late"):
            deadline.left()
    forever = Deadline(None, "")
    assert [forever.left() for _ in range(3)] == [None] * 3
