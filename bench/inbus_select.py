"""The peer of the Inbus scenarios: the obvious server, a loop around one socket, with subscribers in memory.

Run as ``python bench/inbus_select.py``; it prints its port.
"""

from __future__ import annotations

import json
import select
import socket

SUBSCRIBE, UNSUBSCRIBE, PUBLISH = 1, 2, 3


def serve() -> None:
    """Serve for ever."""
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.bind(("127.0.0.1", 0))
    print(own.getsockname()[1], flush=True)
    own.setblocking(False)
    subscribers: dict[str, dict[tuple[str, int], None]] = {}
    while True:
        select.select([own], [], [])
        message = json.loads(own.recv(65535))
        key = message["application"][0]
        address = (message["address"][0], message["address"][1])
        if message["opcode"] == SUBSCRIBE:
            subscribers.setdefault(key, {})[address] = None
        elif message["opcode"] == UNSUBSCRIBE:
            subscribers.get(key, {}).pop(address, None)
        elif message["opcode"] == PUBLISH:
            data = json.dumps(message).encode()
            for each in subscribers.get(key, ()):
                own.sendto(data, each)


if __name__ == "__main__":
    serve()
