"""The system says how long the network takes; of what is no TCP connection it says nothing."""

from __future__ import annotations

import socket

import pytest

from bussrv.net.transport.round_trip import round_trip


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="only Linux says it")
def test_a_connection_has_a_round_trip() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    with listening, socket.create_connection(listening.getsockname()) as one:
        other, _ = listening.accept()
        with other:
            one.sendall(b"x")
            other.recv(1)
            found = round_trip(one)
    assert found is not None
    assert 0 < found < 1
    assert round_trip(one) is None


def test_other_handles_have_none() -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert round_trip(one) is None
    assert round_trip(None) is None
