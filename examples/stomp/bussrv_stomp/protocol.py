"""STOMP 1.2: one connection. A destination is the name of a service."""

import re
from itertools import count
from typing import Any, ClassVar, NamedTuple

from zope.interface import implementer

from bussrv.plugin import OCTET_STREAM, Delivery, IEncoding, Password, Publication, Refused, StreamProtocol
from bussrv_stomp.frames import BAD, Frame, FrameReader, encode

COMMANDS = ("CONNECT", "STOMP", "SEND", "SUBSCRIBE", "UNSUBSCRIBE", "DISCONNECT")
BEAT = 10.0  # seconds between two heart-beats, unless the client wants a longer time


@implementer(IEncoding)
class Messages(NamedTuple):
    subscription: str

    def encode(self, delivery: Delivery) -> bytes | None:
        if (publication := delivery.publication) is None:
            return None
        about = {"subscription": self.subscription, "message-id": str(next(StompProtocol.numbers))}
        about |= {"destination": publication.service, "content-type": publication.content_type}
        return encode("MESSAGE", about, publication.payload)


class StompProtocol(StreamProtocol):
    FORMAT = "stomp"
    numbers: ClassVar[Any] = count(1)
    _is_connected = False

    def make_reader(self) -> FrameReader:
        return FrameReader(self.settings.max_payload)

    def encoding_for(self, options: dict[str, Any]) -> IEncoding:
        return Messages(options.get("id", ""))

    def opened(self) -> None:
        self._services: dict[str, str] = {}  # of the subscriptions, by their ids
        self.expect_input(self.settings.subscribe_timeout, "subscribe-timeout")

    def received(self, event: Frame) -> None:
        self.busy_with(self._serve(event))

    async def _serve(self, frame: Frame) -> None:
        command, receipt = frame.command, frame.headers.get("receipt")
        connects = command in ("CONNECT", "STOMP")
        try:
            if command not in COMMANDS or connects == self._is_connected or "transaction" in frame.headers:
                raise Refused(BAD, f"{command[:20]!r} has no place here")
            if command != "DISCONNECT":
                await getattr(self, "_connect" if connects else f"_{command.lower()}")(frame)
        except Refused as refusal:
            self.end_over(refusal)  # STOMP closes the connection after each error.
        else:
            if receipt is not None and not connects:
                self.send([encode("RECEIPT", {"receipt-id": receipt})])
            if command == "DISCONNECT":
                self.end("client-closed")

    async def _connect(self, frame: Frame) -> None:
        headers = frame.headers
        beats = re.fullmatch("([0-9]{1,9}),([0-9]{1,9})", headers.get("heart-beat", "0,0"), re.ASCII)
        if beats is None or "1.2" not in frame.need("accept-version").split(","):
            raise Refused(BAD, "this server speaks STOMP 1.2, and takes two numbers as heart-beat")
        if self.asks_for_login and "login" in headers:
            await self.log_in(Password(headers["login"], frame.need("passcode").encode()))
        self.check_may_join()
        self._is_connected = True
        sends, wants = (int(each) / 1000 for each in beats.groups())
        self.expect_input(2 * max(sends, BEAT) if sends else 0, "keep-alive-timeout", renewed=True)
        self.send([encode("CONNECTED", {"version": "1.2", "heart-beat": f"{BEAT * 1000:.0f},{BEAT * 1000:.0f}"})])
        if wants:
            self.repeat(max(wants, BEAT), lambda: self.send([b"\n"]))

    async def _send(self, frame: Frame) -> None:
        service = frame.need("destination")
        await self.provide(service)
        self.publish(Publication(service, frame.headers.get("content-type", OCTET_STREAM), frame.body))

    async def _subscribe(self, frame: Frame) -> None:
        key, service = frame.need("id"), frame.need("destination")
        if frame.headers.get("ack", "auto") != "auto":
            raise Refused(BAD, "messages are not acknowledged: ack is auto")
        if key in self._services or service in self._services.values():
            raise Refused(BAD, "there is a subscription with this id or destination")
        await self.subscribe(service, {"id": key})
        self._services[key] = service
        self.send_state(service)

    async def _unsubscribe(self, frame: Frame) -> None:
        service = self._services.pop(frame.need("id"), None)
        if service is None:
            raise Refused("no-such-subscription", "there is no subscription with this id")
        await self.unsubscribe(service)

    def farewell(self, reason: str) -> None:
        if reason != "client-closed":
            self.send([encode("ERROR", {"message": reason}, self.fault.encode())])
