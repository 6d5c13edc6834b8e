"""The echo that the Autobahn test suite is run against."""

from twisted.internet.testing import StringTransportWithDisconnection
from wsproto import ConnectionType, WSConnection
from wsproto import events as ws

from tests.formats.websocket.echo import Echo


def test_messages_come_back_as_they_were_and_a_close_is_answered() -> None:
    client, transport = WSConnection(ConnectionType.CLIENT), StringTransportWithDisconnection()
    transport.protocol = echo = Echo()
    echo.makeConnection(transport)

    def said(event: ws.Event) -> list[ws.Event]:
        echo.dataReceived(client.send(event))
        client.receive_data(transport.value())
        transport.clear()
        return list(client.events())

    assert isinstance(said(ws.Request(host="127.0.0.1", target="/"))[0], ws.AcceptConnection)
    assert [each.data for each in said(ws.TextMessage("grün"))] == ["grün"]
    assert said(ws.BytesMessage(b"\0\xff", message_finished=False)) == []
    assert [bytes(each.data) for each in said(ws.BytesMessage(b"x"))] == [b"\0\xffx"]
    assert isinstance(said(ws.Ping(b"!"))[0], ws.Pong)
    assert isinstance(said(ws.CloseConnection(code=1000))[0], ws.CloseConnection)
    assert not transport.connected
