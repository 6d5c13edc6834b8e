"""Whether a client was sent what the reference says: the same frames, in the same order, byte for byte.

Two things are not the same on both sides. The ids that a server makes: they only have to stand for each other, one for
one, for all clients and for ever. And the words of the server itself: they are the same if they are the same JSON, and
the sentence in an error is for people. All that passes through is compared byte for byte.
"""

from __future__ import annotations

import json
import re

MADE = re.compile(rb"[~#]\d{6}")


class Ids:
    """Which id of the server stands for which one of the reference."""

    def __init__(self) -> None:
        self._real: dict[bytes, bytes] = {}
        self._model: dict[bytes, bytes] = {}

    def same(self, real: bytes, model: bytes) -> bool:
        """Whether two frames are the same, but for ids that stand for each other."""
        ours, theirs = MADE.findall(real), MADE.findall(model)
        for one, other in zip(ours, theirs, strict=False):
            self._model.setdefault(one, other)
            self._real.setdefault(other, one)
            if self._model[one] != other or self._real[other] != one:
                return False
        return len(ours) == len(theirs) and self.as_model(real) == model

    def as_model(self, real: bytes) -> bytes:
        return MADE.sub(lambda found: self._model.get(found[0], found[0]), real)

    def as_real(self, model: bytes) -> bytes:
        """What a client says that has seen the ids of the real server."""
        return MADE.sub(lambda found: self._real.get(found[0], found[0]), model)

    def is_known(self, model: str) -> bool:
        """Whether some client was shown the real id that this one of the reference stands for."""
        return model.encode() in self._real


def comparable(frame: bytes) -> bytes:
    """An object as it is compared: what has passed through as it is, and of the server's own words what they say."""
    metadata, _, payload = frame.partition(b"\0")
    fields = json.loads(metadata)
    if "route" in fields:
        return frame
    if fields.get("event") == "error":
        assert isinstance(fields["message"], str)
        assert fields["message"]
        fields["message"] = "…"
    return json.dumps(fields, sort_keys=True).encode() + b"\0" + payload


def is_coalesced(received: list[bytes], sent: list[bytes], service_of: dict[bytes, str]) -> bool:
    """Whether of the packets ``sent`` only such are missing behind which a newer one of their service came.

    :param service_of: the service of each packet that carries a state.
    """
    left, superseded = list(received), set()
    for packet in reversed(sent):
        if left and left[-1] == packet:
            left.pop()
            superseded.add(service_of.get(packet))
        elif packet not in service_of or service_of[packet] not in superseded:
            return False
    return not left
