"""The commands that prove a journal: ``bussrv journal verify``, ``seal`` and ``keygen``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from bussrv.errors import JournalError, os_errors_as
from bussrv.inspection.words import write
from bussrv.journal.evidence.witnesses import Others
from bussrv.journal.keys import PublicKey, generate, public_path, read_private, read_public
from bussrv.journal.lock import JournalLock, Locked
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.manifest_file import ManifestFile, read_manifest
from bussrv.journal.reading import segments
from bussrv.journal.recovery import recover
from bussrv.journal.sealing import MARKER, Sealer
from bussrv.journal.segment import first_seq, list_segments
from bussrv.journal.verify import JournalFault, Report, verify
from bussrv.registry.state.fold import RegistryFold
from bussrv.turns.clock import SystemClock

FAULTY = 1

SEAL_TIMEOUT = 10.0
"""The longest time in seconds that a running server may take to seal its journal."""

_POLL = 0.1


def run_verify(
    directory: Path,
    public_key: Path | None,
    includes: Sequence[str],
    *,
    sealed: bool,
    as_json: bool,
    others: Others | None = None,
) -> int:
    """Verify a journal, and print its faults.

    :param public_key: the file of the public key that the seals must lead back to.
    :param includes: hashes of seals that must be there.
    :param sealed: whether unsealed records are a fault.
    :param others: witnesses that are trusted, and checkpoints that were kept.
    :returns: the exit status.
    """
    trusted = None if public_key is None else read_public(public_key)
    report = verify(directory, trusted, includes, to_the_end=sealed, registry=RegistryFold, others=others)
    return show_report(directory, report, as_json=as_json)


def show_report(directory: Path, report: Report, *, as_json: bool) -> int:
    """Print what was found. :returns: the exit status."""
    if as_json:
        write(msgspec.json.encode(report) + b"\n")
    else:
        for line in _in_words(directory, report):
            write(f"{line}\n".encode(errors="surrogateescape"))
    return FAULTY if report.faults else 0


def _in_words(directory: Path, report: Report) -> Iterator[str]:
    yield from map(_fault_words, report.faults)
    yield from (f"note: {note}" for note in report.notes)
    records = "no record" if report.first_seq is None else f"records {report.first_seq} to {report.last_seq}"
    yield f"{directory}: {_counted(report.segments, 'segment')}, {records}, {_seal_words(report)}"
    yield _verdict(report)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _verdict(report: Report) -> str:
    if report.faults:
        return _counted(len(report.faults), "fault").upper()
    if report.sealed_seq is None or report.sealed_seq == report.last_seq:
        return "OK"
    return f"OK. Records after {report.sealed_seq} are not sealed yet."


def _seal_words(report: Report) -> str:
    if report.sealed_seq is None:
        return "not sealed"
    signed = "unsigned" if report.key is None else f"signed with the key {report.key}"
    return f"sealed up to record {report.sealed_seq}, {signed}"


def _fault_words(fault: JournalFault) -> str:
    place = [fault.path]
    if fault.line is not None:
        place.append(f"line {fault.line}")
    if fault.seq is not None:
        last = fault.seq if fault.last_seq is None else fault.last_seq
        place.append(f"record {fault.seq}" if last == fault.seq else f"records {fault.seq} to {last}")
    return f"FAULT {', '.join(place)}: {fault.code}: {fault.message}"


def run_seal(directory: Path, key: Path | None, *, as_json: bool = False) -> None:
    """Seal everything that a journal holds, by the running server or in its place."""
    by_server, count = _seal(directory, key)
    if as_json:
        write(msgspec.json.encode({"by_server": by_server, "segments": count}) + b"\n")
    elif by_server:
        write(f"the server sealed {directory}\n".encode())
    else:
        said = f"sealed {_counted(count, 'segment')}" if count else "everything was sealed already"
        write(f"{directory}: {said}\n".encode())


def _seal(directory: Path, key: Path | None) -> tuple[bool, int]:
    """Whether the running server sealed it; if not, how many segments were sealed here."""
    *_, last = segments(directory)
    try:
        lock = JournalLock(directory)
    except Locked:
        _ask_server(directory, first_seq(last))
        return True, 0
    try:
        return False, _seal_alone(directory, key)
    finally:
        lock.release()


def _ask_server(directory: Path, active: int) -> None:
    marker = directory / MARKER
    deadline = time.monotonic() + SEAL_TIMEOUT
    while time.monotonic() < deadline:
        # The server may remove this marker in place of an earlier one of another command. Then make it again.
        if not marker.exists():
            with os_errors_as(JournalError, f"cannot ask the server: {marker}"):
                marker.touch()
        time.sleep(_POLL)
        seal = read_manifest(directory / MANIFEST_NAME).seals.get(active)
        if not marker.exists() and seal is not None and seal.closed:
            return
    raise JournalError(f"the server did not seal {directory} within {SEAL_TIMEOUT:g} s; its log says why")


def _seal_alone(directory: Path, key: Path | None) -> int:
    recovered = recover(directory, None)
    if not recovered.unsealed:
        return 0
    with os_errors_as(JournalError, f"cannot write {directory / MANIFEST_NAME}"):
        sealer = Sealer(
            directory,
            recovered.server or "",
            manifest=read_manifest(directory / MANIFEST_NAME),
            key=None if key is None else read_private(key),
            clock=SystemClock(),
        )
        return len(sealer.seal(recovered.unsealed, closed=True))


def run_keygen(key: Path, replaces: Path | None, of: Path | None, *, as_json: bool = False) -> None:
    """Make a key. With an old key, let that one sign that the new one takes its place.

    :param replaces: the old private key.
    :param of: the journal directory of the old key.
    """
    if (replaces is None) != (of is None):
        raise JournalError(
            "--replaces needs --of, the journal in which the old key hands over, and the other way round"
        )
    for directory in {of or key.parent, key.parent}:
        _check_place(key, directory)
    public = generate(key) if replaces is None or of is None else _make_successor(key, replaces, of)
    if as_json:
        shown = {"key": public.fingerprint, "private": str(key), "public": str(public_path(key))}
        write(msgspec.json.encode(shown) + b"\n")
        return
    write(f"the key {public.fingerprint} is in {key}; give {key}.pub to your auditors\n".encode())


def _check_place(key: Path, journal: Path) -> None:
    """A person who can write to a journal, or gets a copy of it, must not have the key as well."""
    if _is_journal(journal) and key.resolve().is_relative_to(journal.resolve()):
        raise JournalError(f"{key} would lie in the journal directory {journal}: put the key elsewhere")


def _is_journal(directory: Path) -> bool:
    return directory.is_dir() and ((directory / MANIFEST_NAME).exists() or bool(list_segments(directory)))


def _make_successor(path: Path, old: Path, directory: Path) -> PublicKey:
    before = read_private(old)
    if not _is_journal(directory):
        raise JournalError(f"{directory} holds no journal in which a key could hand over")
    lock = JournalLock(directory)
    try:
        manifest = read_manifest(directory / MANIFEST_NAME)
        file = ManifestFile(directory / MANIFEST_NAME, manifest, before)
        public = generate(path)
        server = manifest.entries[-1].body.server
        try:
            file.introduce(public, before, time=SystemClock().utc(), server=server)
        except OSError as error:
            path.unlink()
            public_path(path).unlink()
            raise JournalError(f"cannot write {directory / MANIFEST_NAME}: {error.strerror}") from error
    finally:
        lock.release()
    return public
