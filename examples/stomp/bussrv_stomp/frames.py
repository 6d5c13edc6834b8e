"""STOMP 1.2: frames. Source: https://stomp.github.io/stomp-specification-1.2.html

frame = command EOL *(name ":" value EOL) EOL *OCTET NUL *EOL     EOL = [CR] LF
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from bussrv.plugin import Refused, RemoteProtocolError, StreamReader

BAD = "malformed-packet"
MAX_HEAD, MAX_UNSIZED = 1 << 13, 1 << 16  # bytes of a head, and of a body without content-length
_ESCAPES = {"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c"}
_MEANINGS = {escape: character for character, escape in _ESCAPES.items()}


class Frame(NamedTuple):
    command: str
    headers: dict[str, str]
    body: bytes = b""

    def need(self, name: str) -> str:
        if name not in self.headers:
            raise Refused(BAD, f"{self.command} needs a header {name}")
        return self.headers[name]


class FrameReader(StreamReader[Frame]):
    def __init__(self, max_body: int) -> None:
        super().__init__()
        self._max_body = max_body
        self._head: tuple[str, dict[str, str]] | None = None

    def read_event(self) -> Frame | None:
        if self._head is None:
            while blank := len(start := self.buffer.peek(MAX_HEAD)) - len(start.lstrip(b"\r\n")):
                self.buffer.skip(blank)  # Between frames, the end of a line is a heart-beat.
            self._head = self._read_head()
        size = None if self._head is None else self._body_size(self._head[1].get("content-length"))
        if self._head is None or size is None:
            return None
        body, (command, headers), self._head = self.buffer.take(size + 1), self._head, None
        if body[-1:] != b"\0":
            raise RemoteProtocolError(BAD, "there is no NUL after the body of a frame")
        return Frame(command, headers, body[:-1])

    def _read_head(self) -> tuple[str, dict[str, str]] | None:
        start = self.buffer.peek(MAX_HEAD)
        end = re.search(rb"\n\r?\n", start)
        if end is None:
            if len(start) == MAX_HEAD:
                raise RemoteProtocolError("packet-too-large", f"the head of a frame has at most {MAX_HEAD} bytes")
            return None
        try:
            command, *lines = self.buffer.take(end.end())[: end.start()].decode().split("\n")
        except UnicodeDecodeError as error:
            raise RemoteProtocolError("bad-utf8", f"the head of a frame is not UTF-8: {error.reason}") from error
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.removesuffix("\r").partition(":")
            if not colon:
                raise RemoteProtocolError(BAD, "a header has no colon")
            headers.setdefault(_unescaped(name), _unescaped(value))  # The first one of a name counts.
        return command.removesuffix("\r"), headers

    def _body_size(self, stated: str | None) -> int | None:
        """The size of the body; ``None``: it is not whole yet."""
        if stated is not None and not re.fullmatch("[0-9]{1,9}", stated, re.ASCII):
            raise RemoteProtocolError(BAD, "content-length is not a number")
        # Without a size, the end is searched again for each chunk.
        most = self._max_body if stated is not None else min(self._max_body, MAX_UNSIZED)
        size = self.buffer.find(b"\0", most + 1) if stated is None else int(stated)
        if size > most or (size < 0 and len(self.buffer) > most):
            raise RemoteProtocolError("packet-too-large", f"such a body has at most {most} bytes")
        return size if 0 <= size < len(self.buffer) else None


def _unescaped(text: str) -> str:
    if re.search(r"\\(?![\\rnc])", text.replace("\\\\", "")):
        raise RemoteProtocolError(BAD, "a header has a backslash that begins no escape")
    return re.sub(r"\\.", lambda found: _MEANINGS[found[0]], text)


def encode(command: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """The bytes of a frame."""
    escaped = str.maketrans(_ESCAPES)
    lines = [f"{name}:{value.translate(escaped)}\n" for name, value in headers.items()]
    return f"{command}\n{''.join(lines)}content-length:{len(body)}\n\n".encode() + body + b"\0"
