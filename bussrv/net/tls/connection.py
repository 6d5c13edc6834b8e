"""A connection that speaks TLS: to the reactor a protocol, to the session that it serves a transport.

The session begins when the handshake is done. Handshakes and reading are done in slices (:mod:`bussrv.turns.slices`): a
handshake takes about a millisecond, and so does a chunk of very small records.
"""

from __future__ import annotations

import ssl
from typing import Any, Protocol, cast

from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv.addresses import address_key, peer_text
from bussrv.net.tls.output import TlsOutput
from bussrv.turns.slices import Slices

FED = 16
"""The most records that are given to TLS at once. It does all that they ask for: a record of 27 bytes that asks for new
keys takes 60 microseconds."""

HEADER = 5
"""The bytes of a record before its content; the last two of them say how many follow."""

RECORD = 16 << 10
"""The most bytes of a record."""

MOST_SHAKEN = 64 << 10
"""The most bytes of a handshake; with a chain of large certificates it has 20,000."""

HANDSHAKE = 0x16
"""The first byte of a TLS connection."""


_NO_PROOF = ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "BAD_SIGNATURE")


def record_buffer() -> memoryview:
    """Room for one decrypted record.

    Without it, each record is decrypted into 16 KiB of its own, which are then cut to its size. That leaves holes in
    memory; see :mod:`bussrv.net.transport.tcp`.
    """
    return memoryview(bytearray(RECORD))


class Side(Protocol):
    """The differences between a connection that a port accepts and a link that this server dials.

    :ivar is_port: whether the other end speaks first.
    :ivar record: the buffer into which records are decrypted, one at a time; see :func:`record_buffer`.
    """

    is_port: bool
    slices: Slices
    record: memoryview

    def begun(self, connection: TlsConnection, peer: str) -> bool:
        """A connection has begun. :returns: whether there is room for it."""

    def wrap(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        """The TLS of a new connection."""

    def established(self, connection: TlsConnection) -> None:
        """The handshake is done: :meth:`TlsConnection.serve` something."""

    def failed(self, connection: TlsConnection, why: str, *, proved_nothing: bool) -> None:
        """The handshake failed, or what came later is not TLS. The connection is closed.

        :param proved_nothing: the reason is the certificate of the other end, or that it has none.
        """

    def gone(self, connection: TlsConnection) -> None:
        """A connection is lost whose handshake was neither done nor failed."""


@implementer(IHalfCloseableProtocol)
class TlsConnection(TlsOutput):
    """One connection.

    :ivar protocol: the protocol that it serves; ``None`` until the handshake is done.
    :ivar peer: the address of the other end.
    :ivar is_waiting: whether input waits for its slice.
    """

    protocol: Any = None
    peer = ""
    is_waiting = False

    def __init__(self, side: Side) -> None:
        super().__init__()
        self._side = side
        self._incoming = ssl.MemoryBIO()
        self._received = memoryview(b"")
        self._missing = 0
        self._shaken = 0
        self._is_paused = self._is_stopped = self._input_ended = self._has_ended = self._told_end = False

    # The reactor's side.

    def connectionMade(self) -> None:
        """Wait for the handshake; the dialing end begins it."""
        self.peer = peer_text(self.transport.getPeer())
        if not self._side.begun(self, self.peer):
            self.abortConnection()
            return
        self.begin_output()
        if not self._side.is_port:
            self.serve_soon()

    def dataReceived(self, data: bytes) -> None:
        """Something came. While other input waits, nothing more is read than this."""
        if self.is_over or self.is_closing:
            return
        self._received = memoryview(bytes(self._received) + data if self._received else data)
        if self.is_waiting or self._is_paused:
            self._stop_input()
        elif self.protocol is None or self._read(None):
            self.serve_soon()

    def readConnectionLost(self) -> None:
        """The other end sends no more. Objects and packets have a length, so none can be cut short unnoticed."""
        self._input_ended = True
        if not (self.is_waiting or self._is_paused or self.is_closing):
            self.serve_soon()

    def writeConnectionLost(self) -> None:
        """The end of the connection is reported separately."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The connection is gone."""
        self.is_over = True
        self._received = memoryview(b"")
        self.forget_output()
        # Connection and session know each other, so only the collector frees them, perhaps minutes later. It does not
        # see the tens of KiB that TLS takes outside of Python.
        self.tls = None
        self._incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        if self.protocol is not None:
            self.protocol.connectionLost(reason)
        else:
            self._side.gone(self)

    def _stop_input(self) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            self.transport.pauseProducing()

    def _go_on(self) -> None:
        if self._is_stopped and not (self.is_closing or self._input_ended):
            self._is_stopped = False
            self.transport.resumeProducing()

    # Handshake and input.

    def serve_soon(self) -> None:
        """Do the handshake, or read, when it is this connection's turn."""
        if not self.is_waiting:
            self.is_waiting = True
            self._side.slices.do(self._serve, address_key(self.peer))

    def _serve(self, until: float) -> bool:
        """Work for one slice. :returns: whether there is further work."""
        try:
            self.is_waiting = not self.is_over and self._take(until)
        except Exception:
            self.abortConnection()  # as Twisted does; the caller logs the exception
            raise
        if not (self.is_waiting or self._is_paused or self.is_over):
            self._go_on()
        return self.is_waiting

    def _take(self, until: float) -> bool:
        if self.protocol is None and not self._shake():
            return False
        return not self._is_paused and self._read(until)

    def _feed(self) -> bool:
        """Give TLS the next few records that came, the last one perhaps in part. :returns: whether there were any."""
        received, size = self._received, len(self._received)
        end = min(self._missing, size)
        self._missing -= end
        for _ in range(FED):
            if end + HEADER > size:
                break
            whole = end + HEADER + int.from_bytes(received[end + HEADER - 2 : end + HEADER], "big")
            end = min(whole, size)
            self._missing = whole - end
        self._incoming.write(received[:end])
        self._received = received[end:]
        return end > 0

    def _shake(self) -> bool:
        """Go on with the handshake. :returns: whether it is done."""
        if self.tls is None:
            if self._side.is_port and self._received and self._received[0] != HANDSHAKE:
                return self._fail("the other end does not speak TLS")
            self.tls = self._side.wrap(self._incoming, self.outgoing)
        self._shaken += len(self._received)
        tls = self.tls
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                self.flush()
                if self.is_over:
                    return False
                if self._feed():
                    continue
                if self._input_ended or self._shaken > MOST_SHAKEN:
                    return self._fail("it ended too early" if self._input_ended else "it is too long")
                return False
            except ssl.SSLError as error:
                self.flush()
                return self._fail(explain(error), _is_of_certificate(error))
            self.flush()
            if not self.is_over:
                self._side.established(self)
            return not (self.is_closing or self.is_over)

    def _fail(self, why: str, proved_nothing: bool = False) -> bool:
        self._side.failed(self, why, proved_nothing=proved_nothing)
        self.close_after(b"")
        return False

    def serve(self, protocol: Any) -> None:
        """Be the transport of a protocol, from now on."""
        self.protocol = protocol
        protocol.makeConnection(self)

    def _read(self, until: float | None) -> bool:
        """Give the session what can be read, until about a time; ``None``: only of the next few records.

        :returns: whether there may be more.
        """
        pieces: list[bytes] = []
        is_left, failure = False, ""
        try:
            is_left = self._decrypt(pieces, until)
        except ssl.SSLError as error:
            # Somebody changed what the other end sent, or it does not accept this end's certificate.
            failure = explain(error)
        self.flush()
        if pieces:
            self.protocol.dataReceived(b"".join(pieces))
        if failure:
            self._side.failed(self, failure, proved_nothing=False)
            self.abortConnection()
        elif self._has_ended and not self._told_end:
            self._told_end = True
            self.protocol.readConnectionLost()
        return is_left and not (self._is_paused or self.is_over or self.is_closing)

    def _decrypt(self, pieces: list[bytes], until: float | None) -> bool:
        """Add to ``pieces`` what can be read. :returns: whether there may be more."""
        assert self.tls is not None
        record = self._side.record
        has_fed = False
        while True:
            try:
                # The stubs do not know that with a buffer this is the number of bytes.
                size = cast(int, self.tls.read(RECORD, record))
            except ssl.SSLWantReadError:
                if has_fed and self._received and (until is None or self._side.slices.is_over(until)):
                    return True
                has_fed = self._feed()
                if has_fed:
                    continue
                self._has_ended = self._input_ended
                return False
            if not size:
                self._has_ended = True
                return False
            pieces.append(bytes(record[:size]))
            if not (self._received or self._incoming.pending or self._input_ended):
                return False

    # The transport's side: input.

    def pauseProducing(self) -> None:
        """Give the session nothing more."""
        self._is_paused = True
        self._stop_input()

    def resumeProducing(self) -> None:
        """Give the session what came meanwhile, and what comes."""
        self._is_paused = False
        if self._received or self._incoming.pending or (self._input_ended and not self._told_end):
            self.serve_soon()
        elif not self.is_waiting:
            self._go_on()


def _is_of_certificate(error: ssl.SSLError) -> bool:
    return isinstance(error, ssl.SSLCertVerificationError) or error.reason in _NO_PROOF


def explain(error: ssl.SSLError) -> str:
    """The reason for an error of TLS, in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the other end is not accepted: {error.verify_message.rstrip('.')}"
    reason = (error.reason or str(error)).replace("_", " ").lower()
    before, _, alert = reason.partition(" alert ")
    return f"the other end says: {alert}" if alert else before
