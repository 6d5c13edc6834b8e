"""STOMP 1.2: frames. Source: https://stomp.github.io/stomp-specification-1.2.html

frame = command EOL *(name ":" value EOL) EOL *OCTET NUL *EOL     EOL = [CR] LF
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from bussrv.plugin import Refused, RemoteProtocolError, StreamReader, decode_text

BAD = "malformed-packet"
MAX_HEAD = 1 << 13  # bytes
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
        self._head: Frame | None = None  # the frame whose body has not come yet

    def read_event(self) -> Frame | None:
        if self._head is None:
            while blank := len(start := self.buffer.peek(MAX_HEAD)) - len(start.lstrip(b"\r\n")):
                self.buffer.skip(blank)  # Between frames, the end of a line is a heart-beat.
        head, self._head = self._head or self._read_head(), None
        body = None if head is None else self._read_body(head.headers.get("content-length"))
        if head is None or body is None:
            self._head = head
            return None
        return head._replace(body=body)

    def _read_head(self) -> Frame | None:
        head = self.buffer.take_until(b"\n\n", MAX_HEAD, b"\n\r\n")
        if head is None:
            return None
        command, *lines = decode_text(head, "the head of a frame").split("\n")
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.removesuffix("\r").partition(":")
            if not colon:
                raise RemoteProtocolError(BAD, "a header has no colon")
            headers.setdefault(_unescaped(name), _unescaped(value))  # The first one of a name counts.
        return Frame(command.removesuffix("\r"), headers)

    def _read_body(self, stated: str | None) -> bytes | None:
        if stated is None:
            return self.buffer.take_until(b"\0", self._max_body)
        if not re.fullmatch("[0-9]{1,9}", stated, re.ASCII):
            raise RemoteProtocolError(BAD, "content-length is not a number")
        if int(stated) > self._max_body:
            raise RemoteProtocolError("packet-too-large", f"a body has at most {self._max_body} bytes")
        if len(self.buffer) <= int(stated):
            return None
        body = self.buffer.take(int(stated) + 1)
        if body[-1:] != b"\0":
            raise RemoteProtocolError(BAD, "there is no NUL after the body of a frame")
        return body[:-1]


def _unescaped(text: str) -> str:
    if re.search(r"\\(?![\\rnc])", text.replace("\\\\", "")):
        raise RemoteProtocolError(BAD, "a header has a backslash that begins no escape")
    return re.sub(r"\\.", lambda found: _MEANINGS[found[0]], text)


def encode(command: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """The bytes of a frame."""
    escaped = str.maketrans(_ESCAPES)
    lines = [f"{name}:{value.translate(escaped)}\n" for name, value in headers.items()]
    return f"{command}\n{''.join(lines)}content-length:{len(body)}\n\n".encode() + body + b"\0"
