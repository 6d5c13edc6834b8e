"""How a client of STOMP speaks, for the kit that judges formats."""

from collections.abc import Iterator
from typing import ClassVar

from bussrv.testing.conformance.adapter import Adapter, Client, Confirmed, Login, Published, Refused, Said, events_of
from bussrv_stomp.frames import FrameReader, encode


class StompClient(Client):
    def __init__(self, login: Login | None = None) -> None:
        super().__init__(login)
        self._frames = FrameReader(1 << 20)

    def join(self) -> bytes:
        login = {} if self.login is None else {"login": self.login.user, "passcode": self.login.secret}
        return encode("CONNECT", {"accept-version": "1.2", "host": "kit", **login})

    def _request(self, what: str, command: str, **headers: str) -> bytes:
        return encode(command, {**headers, "receipt": f"{what} {next(self.numbers)}"})

    def subscribe(self, service: str) -> bytes:
        return self._request("subscribe", "SUBSCRIBE", id=f"of {service}", destination=service)

    def unsubscribe(self, service: str) -> bytes:
        return self._request("unsubscribe", "UNSUBSCRIBE", id=f"of {service}")

    def publish(self, service: str, payload: bytes) -> bytes:
        return encode("SEND", {"destination": service, "receipt": f"publish {next(self.numbers)}"}, payload)

    def read(self, data: bytes) -> Iterator[Said]:
        for frame in events_of(self._frames, data):
            if frame.command == "MESSAGE":
                yield Published(frame.headers["destination"], frame.body)
            elif frame.command == "ERROR":
                yield Refused(f"{frame.headers['message']}: {frame.body.decode()}")
            else:
                yield Confirmed(frame.headers.get("receipt-id", "login").partition(" ")[0])


class StompAdapter(Adapter):
    name = "stomp"
    client = StompClient
    absent: ClassVar[dict[str, str]] = {
        "refuse": "After each ERROR, STOMP closes the connection.",
        "provide": "Whoever sends to a destination provides that service.",
        "pattern": "A destination is the name of a service.",
        "ask": "STOMP has no requests.",
        "answer": "STOMP has no requests.",
    }
