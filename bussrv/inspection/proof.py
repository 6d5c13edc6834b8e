"""What proves a journal: ``bussrv journal verify``, ``seal`` and ``keygen``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bussrv.clock import SystemClock
from bussrv.errors import JournalError
from bussrv.inspection.words import write
from bussrv.journal.keys import PublicKey, generate, read_private, read_public
from bussrv.journal.lock import JournalLock, Locked
from bussrv.journal.manifest import MANIFEST_NAME, ManifestFile, read_manifest
from bussrv.journal.reading import NO_FOLD
from bussrv.journal.recovery import recover
from bussrv.journal.sealing import MARKER, Sealer
from bussrv.journal.segment import first_seq, list_segments
from bussrv.journal.verify import Report, verify
from bussrv.journal.walk import Fault

FAULTY = 1
SEAL_TIMEOUT = 10.0
"""How many seconds a running server may take to seal its journal."""

_POLL = 0.1


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Declare what ``verify`` takes."""
    parser.add_argument("directory", metavar="DIR", type=Path, help="the journal directory, or a copy of one")
    parser.add_argument(
        "--public-key", metavar="FILE", type=Path, help="the key that the seals have to be led back to, kept elsewhere"
    )
    parser.add_argument(
        "--includes",
        metavar="HASH",
        action="append",
        default=[],
        help="a seal that was noted elsewhere, such as in the log of the server, and has to be there; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(do=run_verify)


def add_seal(parser: argparse.ArgumentParser) -> None:
    """Declare what ``seal`` takes."""
    parser.add_argument("directory", metavar="DIR", type=Path, help="the journal directory")
    parser.add_argument("--key", metavar="FILE", type=Path, help="the private key, where no server runs that has it")
    parser.set_defaults(do=run_seal)


def add_keygen(parser: argparse.ArgumentParser) -> None:
    """Declare what ``keygen`` takes."""
    parser.add_argument("key", metavar="FILE", type=Path, help="where the private key goes; the public one: FILE.pub")
    parser.add_argument(
        "--replaces", metavar="FILE", type=Path, help="the private key that it takes the place of, in the journal --of"
    )
    parser.add_argument("--of", metavar="DIR", type=Path, help="the journal directory; no server may be running there")
    parser.set_defaults(do=run_keygen)


def run_verify(arguments: argparse.Namespace) -> int:
    """Say everything that is wrong with a journal."""
    trusted = None if arguments.public_key is None else read_public(arguments.public_key)
    report = verify(arguments.directory, trusted, arguments.includes)
    if arguments.json:
        write(msgspec.json.encode(report) + b"\n")
    else:
        for line in _in_words(arguments.directory, report):
            write(f"{line}\n".encode())
    return FAULTY if report.faults else 0


def _in_words(directory: Path, report: Report) -> Iterator[str]:
    yield from map(_fault_words, report.faults)
    yield from (f"note: {note}" for note in report.notes)
    records = "no record" if report.first_seq is None else f"records {report.first_seq} to {report.last_seq}"
    yield f"{directory}: {report.segments} segments, {records}, {_seal_words(report)}"
    yield f"{len(report.faults)} FAULTS" if report.faults else "whole"


def _seal_words(report: Report) -> str:
    if report.sealed_seq is None:
        return "not sealed"
    signed = "unsigned" if report.key is None else f"signed with the key {report.key}"
    return f"sealed up to record {report.sealed_seq}, {signed}"


def _fault_words(fault: Fault) -> str:
    place = [fault.path]
    if fault.line is not None:
        place.append(f"line {fault.line}")
    if fault.seq is not None:
        place.append(f"record {fault.seq}")
    return f"FAULT {', '.join(place)}: {fault.message}"


def run_seal(arguments: argparse.Namespace) -> int:
    """Seal everything that a journal holds, by the running server or in its place."""
    directory: Path = arguments.directory
    paths = list_segments(directory)
    if not paths:
        raise JournalError(f"{directory} holds no journal: there is no segment in it")
    try:
        lock = JournalLock(directory)
    except Locked:
        _ask_server(directory, first_seq(paths[-1]))
        write(f"the server sealed {directory}\n".encode())
        return 0
    try:
        count = _seal_alone(directory, arguments.key)
    finally:
        lock.release()
    write(f"sealed {count} segments of {directory}\n".encode())
    return 0


def _ask_server(directory: Path, active: int) -> None:
    marker = directory / MARKER
    try:
        marker.touch()
    except OSError as error:
        raise JournalError(f"cannot ask the server: {marker}: {error.strerror}") from error
    deadline = time.monotonic() + SEAL_TIMEOUT
    while time.monotonic() < deadline:
        seal = read_manifest(directory / MANIFEST_NAME).seals.get(active)
        if not marker.exists() and (seal is None or seal.closed):
            return
        time.sleep(_POLL)
    raise JournalError(f"the server did not seal {directory} within {SEAL_TIMEOUT:g} s; its log says why")


def _seal_alone(directory: Path, key: Path | None) -> int:
    recovered = recover(directory, NO_FOLD)
    if not recovered.unsealed:
        return 0
    try:
        sealer = Sealer(
            directory,
            recovered.server or "",
            manifest=read_manifest(directory / MANIFEST_NAME),
            key=None if key is None else read_private(key),
            clock=SystemClock(),
        )
        return len(sealer.seal(recovered.unsealed, closed=True))
    except OSError as error:
        raise JournalError(f"cannot write {directory / MANIFEST_NAME}: {error.strerror}") from error


def run_keygen(arguments: argparse.Namespace) -> int:
    """Make a key, and let the old one say that it takes its place."""
    if (arguments.replaces is None) != (arguments.of is None):
        raise JournalError(
            "--replaces needs --of, the journal in which the old key hands over, and the other way round"
        )
    if arguments.of is not None:
        public = _make_successor(arguments.key, arguments.replaces, arguments.of)
    else:
        public = generate(arguments.key)
    write(f"the key {public.fingerprint} is in {arguments.key}; give {arguments.key}.pub to your auditors\n".encode())
    return 0


def _make_successor(path: Path, old: Path, directory: Path) -> PublicKey:
    before = read_private(old)
    lock = JournalLock(directory)
    try:
        manifest = read_manifest(directory / MANIFEST_NAME)
        file = ManifestFile(directory / MANIFEST_NAME, manifest, before)
        public = generate(path)
        server = manifest.entries[-1].body.server
        try:
            file.introduce(public, before, time=SystemClock().utc(), server=server)
        except OSError as error:
            raise JournalError(f"cannot write {directory / MANIFEST_NAME}: {error.strerror}") from error
    finally:
        lock.release()
    return public
