"""One object or publication on its way out, and its frames. Pure."""

from __future__ import annotations

from typing import Any

from bussrv.values import Publication


class Delivery:
    """One object on its way out, in the two forms that encodings ask for.

    :ivar metadata: its metadata as the object network sees it, as raw JSON.
    :ivar payload: its payload.
    :ivar publication: what it is to subscribers of a service; ``None`` when it is no publication.
    :ivar frames: its bytes by encoding, each made once; ``None`` for an encoding that cannot carry it. Encodings may
        keep other things that they share under keys of their own.
    """

    __slots__ = ("frames", "metadata", "payload", "publication")

    def __init__(self, metadata: bytes, payload: bytes, publication: Publication | None = None) -> None:
        self.metadata = metadata
        self.payload = payload
        self.publication = publication
        self.frames: dict[object, Any] = {}
