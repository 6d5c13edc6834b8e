"""The connection to NATS, to a server that says anything: what one message has wrong never ends the reading."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from nats.errors import Error

from bussrv.uplink.nats.connection import Connection

INFO = b'INFO {"server_id":"x","version":"2.10.0","headers":true,"max_payload":1048576,"proto":1}\r\n'
HEADERS = [b"NATS/1.0 \xff\xff\xff\r\n\r\n", b"NATS/1.0", b"NATS/1.0\r\n\xff: \xfe\r\n\r\n"]
UNDECODABLE = [
    b"MSG bus.x.beat.\xff\xfe %d 1\r\nx\r\n",
    *(b"HMSG bus.x.beat.a %%d %d %d\r\n%bx\r\n" % (len(each), len(each) + 1, each) for each in HEADERS),
]


async def with_server(script: Callable[[asyncio.StreamWriter], None], use: Callable[[Connection], Awaitable[None]]):
    """A server that answers what has to be answered, and says its script at the second PING."""
    pings = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal pings
        writer.write(INFO)
        while line := await reader.readline():
            if line.startswith(b"PING"):
                pings += 1
                if pings == 2:
                    script(writer)
                writer.write(b"PONG\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    connection = Connection()
    try:
        port = server.sockets[0].getsockname()[1]
        await connection.connect(f"nats://127.0.0.1:{port}", error_cb=_nothing, max_reconnect_attempts=-1)
        await use(connection)
    finally:
        await connection.close()
        server.close()


async def _nothing(error: Exception) -> None:
    pass


def test_what_cannot_be_decoded_does_not_end_the_reading():
    came = []

    async def use(connection: Connection) -> None:
        connection.received = lambda subject, data: came.append((subject, data))
        await connection.listen({"bus.x.beat.*"})
        await connection.subscribe("other")
        await asyncio.wait_for(connection.flush(), 30)
        await asyncio.wait_for(connection.flush(), 30)

    def script(writer: asyncio.StreamWriter) -> None:
        for message in UNDECODABLE:
            writer.writelines([message % 1, message % 2])
        writer.write(b"MSG bus.x.beat.b 1 4\r\nlast\r\n")

    asyncio.run(with_server(script, use))
    assert came[-1] == ("bus.x.beat.b", b"last")
    assert len(came) == len(UNDECODABLE) + 1


def test_a_connection_that_the_server_ends_tells_so():
    async def use(connection: Connection) -> None:
        with suppress(Error):
            await connection.flush()
        await asyncio.wait_for(connection.ended, 30)
        assert connection.is_closed
        assert "expired" in str(connection.last_error)

    asyncio.run(with_server(lambda writer: writer.write(b"-ERR 'User Authentication Expired'\r\n"), use))
