"""The corpora: inputs that fuzzing found worth keeping. A line of ``corpus/TARGET`` is one input in base64."""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any

from tests.fuzz.targets import ROOT, TARGETS, Target, seeds

CORPORA = Path(__file__).parent / "corpus"

LONGEST = 4096
"""Bytes of an input that is kept."""

_PRODUCT = str(ROOT / "bussrv")

Step = tuple[object, int, int]
"""Code, and two lines of it that were executed one after the other."""


def kept(name: str) -> list[bytes]:
    """The inputs that were kept for a target."""
    path = CORPORA / name
    return [b64decode(line) for line in path.read_text(encoding="ascii").splitlines()] if path.exists() else []


def keep(name: str, inputs: Iterable[bytes]) -> None:
    """Keep of these inputs what takes steps that no shorter one takes, nor any seed."""
    target, seen = TARGETS[name], set[Step]()
    for each in seeds(name):
        seen |= steps(target, each)
    lines = []
    for each in sorted(set(inputs), key=lambda each: (len(each), each)):
        if len(each) <= LONGEST and not (found := steps(target, each)) <= seen:
            seen |= found
            lines.append(b64encode(each).decode() + "\n")
    (CORPORA / name).write_text("".join(lines), encoding="ascii")


def steps(target: Target, data: bytes) -> set[Step]:
    """The steps that the product takes with an input."""
    found: set[Step] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_PRODUCT):
            return None
        before = frame.f_lineno

        def line(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal before
            found.add((frame.f_code, before, frame.f_lineno))
            before = frame.f_lineno
            return line

        return line

    sys.settrace(trace)
    try:
        target(data)
    finally:
        sys.settrace(None)
    return found


def spread(name: str, directory: Path) -> None:
    """Write the seeds and the kept inputs of a target into a directory, a file each."""
    for each in (*seeds(name), *kept(name)):
        (directory / sha256(each).hexdigest()).write_bytes(each)
