"""The client of the Service providing protocol."""

import pytest

from bussrv.client.spp import SppClient
from bussrv.errors import Refused
from bussrv.wire import spp


def test_watching_a_service(serve):
    def script(peer):
        peer.send(spp.offer("clock"))
        assert peer.exactly(len(subscribe)) == subscribe
        peer.send(spp.info("clock", b"12:00") + spp.info("clock", b"12:01"))
        assert peer.until_closed() == spp.unsubscribe("clock")

    subscribe = spp.subscribe("clock")
    with SppClient(port=serve(script)) as client:
        assert client.next_event() == spp.Offer("clock")
        client.subscribe("clock")
        assert client.next_event() == spp.Info("clock", b"12:00")
        assert client.next_event() == spp.Info("clock", b"12:01")
        client.unsubscribe("clock")


def test_what_is_ignored_is_an_event_too(serve):
    def script(peer):
        peer.send(bytes(8) + spp.other(40, b"x"))
        peer.until_closed()

    with SppClient(port=serve(script)) as client:
        assert [client.next_event(), client.next_event()] == [spp.Ignored(0), spp.Other(40, b"x")]


@pytest.mark.parametrize("code", [0, 1])
def test_authenticating(serve, code):
    def script(peer):
        assert peer.exactly(len(credentials)) == credentials
        peer.send(spp.offer("clock") + spp.other(40, b"") + spp.auth_result(code))
        peer.until_closed()

    credentials = spp.authenticate("ann", "s3cret")
    with SppClient(port=serve(script)) as client:
        if code:
            with pytest.raises(PermissionError, match="the server refused the authentication of ann, with code 1"):
                client.authenticate("ann", "s3cret")
        else:
            client.authenticate("ann", "s3cret")
        assert [client.next_event(), client.next_event()] == [spp.Offer("clock"), spp.Other(40, b"")]


def test_authenticating_again_if_too_many_logins_wait(serve):
    def script(peer):
        for code in (2, 2, 0):
            assert peer.exactly(len(credentials)) == credentials
            peer.send(spp.auth_result(code))
        peer.until_closed()

    credentials = spp.authenticate("ann", "s3cret")
    with SppClient(port=serve(script)) as client:
        client.authenticate("ann", "s3cret")


def test_authenticating_with_a_token(serve):
    def script(peer):
        assert peer.exactly(len(credentials)) == credentials
        peer.send(spp.auth_result(1))
        peer.until_closed()

    credentials = spp.authenticate("", "t0ken")
    with SppClient(port=serve(script)) as client:
        with pytest.raises(TypeError, match="a user with a secret, or a token"):
            client.authenticate("ann", token="t0ken")
        with pytest.raises(PermissionError) as refused:
            client.authenticate(token="t0ken")
        assert str(refused.value) == "the server refused the authentication by a token, with code 1"


def test_a_server_without_authentication_does_not_answer(serve):
    port = serve(lambda peer: peer.until_closed())
    sentence = f"no answer to the authentication came from 127.0.0.1 port {port} within 0.01 s"
    with SppClient(port=port) as client, pytest.raises(TimeoutError, match=sentence):
        client.authenticate("ann", "s3cret", 0.01)


@pytest.mark.parametrize("name", ["", "x" * 256, "a\nb"])
def test_impossible_names_are_refused_before_they_are_sent(serve, name):
    def script(peer):
        assert peer.until_closed() == b""

    with SppClient(port=serve(script)) as client:
        for call in (client.subscribe, client.unsubscribe):
            with pytest.raises(Refused) as caught:
                call(name)
            assert caught.value.reason == "bad-service-name"


def test_larger_packets_may_be_allowed(serve):
    def script(peer):
        peer.send(spp.info("clock", bytes(2 << 20)))
        peer.until_closed()

    with SppClient(port=serve(script), max_packet=3 << 20) as client:
        assert client.next_event() == spp.Info("clock", bytes(2 << 20))
