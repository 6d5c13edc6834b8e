"""STOMP 1.2: one connection. A destination is the name of a service."""

import re
from itertools import count
from typing import Any, ClassVar, NamedTuple

from zope.interface import implementer

from bussrv.plugin import (
    OCTET_STREAM,
    Delivery,
    IBus,
    IEncoding,
    Password,
    Patience,
    Publication,
    Refused,
    RemoteProtocolError,
    StreamFactory,
    StreamListener,
    StreamProtocol,
)
from bussrv_stomp.frames import BAD, Frame, FrameReader, encode

COMMANDS = ("CONNECT", "STOMP", "SEND", "SUBSCRIBE", "UNSUBSCRIBE", "DISCONNECT")
BEAT = 10.0  # seconds between two heart-beats, unless the client wants a longer time


@implementer(IEncoding)
class Messages(NamedTuple):
    subscription: str

    def encode(self, delivery: Delivery) -> bytes | None:
        return None if delivery.publication is None else self.message(delivery.publication)

    def message(self, publication: Publication) -> bytes:
        about = {"subscription": self.subscription, "message-id": str(next(StompProtocol.numbers))}
        about |= {"destination": publication.service, "content-type": publication.content_type}
        return encode("MESSAGE", about, publication.payload)


class StompProtocol(StreamProtocol):
    FORMAT = "stomp"
    numbers: ClassVar[Any] = count(1)
    _is_connected = _has_told = False
    _silence = 0.0  # the most seconds that the client may be silent; 0: it may be
    _patience: Patience | None = None
    _beat: Any = None

    def make_reader(self) -> FrameReader:
        return FrameReader(self.settings.max_payload)

    def encoding(self) -> IEncoding:
        return Messages("")

    def encoding_for(self, options: dict[str, Any]) -> IEncoding:
        return Messages(options["id"])

    def opened(self) -> None:
        self._services: dict[str, str] = {}  # of the subscriptions, by their ids
        self._wait(self.settings.subscribe_timeout, "subscribe-timeout")

    def dataReceived(self, data: bytes) -> None:
        if self._silence:
            self._wait(self._silence, "keep-alive-timeout")
        super().dataReceived(data)

    def received(self, event: Frame) -> None:
        self.busy_with(self._serve(event))

    async def _serve(self, frame: Frame) -> None:
        command, receipt = frame.command, frame.headers.get("receipt")
        connects = command in ("CONNECT", "STOMP")
        try:
            if command not in COMMANDS or connects == self._is_connected or "transaction" in frame.headers:
                raise Refused(BAD, f"{command[:20]!r} has no place here")
            await getattr(self, f"_{command.lower()}")(frame)
        except Refused as refusal:
            self._tell(refusal.reason, refusal.message)
            self.end(refusal.reason)  # STOMP closes the connection after each error.
        else:
            if receipt is not None and not connects:
                self.send([encode("RECEIPT", {"receipt-id": receipt})])
            if command == "DISCONNECT":
                self._has_told = True
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
        self._silence = 2 * max(sends, BEAT) if sends else 0.0
        self._wait(self._silence, "keep-alive-timeout")
        self.send([encode("CONNECTED", {"version": "1.2", "heart-beat": f"{BEAT * 1000:.0f},{BEAT * 1000:.0f}"})])
        if wants:
            self._beat_every(max(wants, BEAT))

    _stomp = _connect

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
        if state := self.state_of(service):
            self.send([Messages(key).message(Publication(service, OCTET_STREAM, state))])

    async def _unsubscribe(self, frame: Frame) -> None:
        service = self._services.pop(frame.need("id"), None)
        if service is None:
            raise Refused("no-such-subscription", "there is no subscription with this id")
        await self.unsubscribe(service)

    async def _disconnect(self, frame: Frame) -> None:
        """The receipt and the end follow."""

    def _wait(self, most: float, reason: str) -> None:
        """Wait for the client. If that takes longer than ``most`` seconds, its session ends; 0: it does not."""
        if self._patience is not None:
            self._patience.end()
        self._patience = Patience(most, lambda: self.end(reason), self.is_unserved, self.reactor) if most else None

    def _beat_every(self, seconds: float) -> None:
        self.send([b"\n"])
        self._beat = self.reactor.callLater(seconds, self._beat_every, seconds)

    def _tell(self, reason: str, message: str) -> None:
        self._has_told = True
        self.send([encode("ERROR", {"message": reason}, message.encode())])

    def malformed(self, error: RemoteProtocolError) -> None:
        self._tell(error.reason, error.message)

    def farewell(self, reason: str) -> None:
        if not self._has_told:
            self._tell(reason, "")

    def closed(self, reason: str) -> None:
        self._wait(0, "")
        if self._beat is not None:
            self._beat.cancel()


def listen(bus: IBus, endpoint: str, reactor: Any) -> StreamListener:
    return StreamListener(StreamFactory(StompProtocol, bus, reactor), endpoint, reactor)
