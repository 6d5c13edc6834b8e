"""The commands ``bussrv journal prove`` and ``check-proof``: single records of a journal, proved without the others.

A proof of a record is a tlog-proof (:mod:`bussrv.transparency.proofs`); its extra data is the line of the record. A
bundle is a ZIP file of such proofs, with the checkpoint, the keys, a time stamp if there is one, a program that checks
them without bussrv, and a README.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct

from bussrv.errors import JournalError, os_errors_as
from bussrv.events import Event
from bussrv.incidents.vocabulary import address_of
from bussrv.inspection.commands import Names
from bussrv.inspection.words import write
from bussrv.journal.checkpoints import SealedCheckpoint, sealed_checkpoints
from bussrv.journal.leaves import JournalTree
from bussrv.journal.manifest import MANIFEST_NAME, last_seq
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.reading import read_journal
from bussrv.journal.record import decode
from bussrv.journal.record_tree import leaf_hashes
from bussrv.transparency.cosignatures import signed_by
from bussrv.transparency.notes import MOST_BYTES, NoteError, VerifierKey, parse_key
from bussrv.transparency.proofs import SUFFIX, Proof, parse_proof

MOST_PROVED = 10_000
"""The most records of one bundle, by default."""

MOST_BUNDLE = 1 << 30
"""The most bytes that are read of a bundle."""

WRONG = 1

_README = """These are {count} records of the journal {origin}, proved without the others.

Each file *.tlog-proof has one record, as c2sp.org/tlog-proof describes it: the line of the record (extra, in
base64), its place in the journal (index), the hashes that lead to the root of the tree, and the signed checkpoint.
records.jsonl has the lines to read. checkpoint.txt is the checkpoint. keys.json has the keys that signed it.

Check them with Python and OpenSSL 3:

    python3 check.py --log-key '{key}'

Compare that key with one that you have from elsewhere: whoever made this bundle could have made another key. Witnesses
that you trust are given with --witness-key.
{stamp}"""

_STAMPED = """
checkpoint.tsr is an RFC 3161 time stamp of checkpoint.txt. With the certificate of its authority:

    openssl ts -verify -data checkpoint.txt -in checkpoint.tsr -CAfile tsa.pem
"""


class Keys(Struct, frozen=True):
    """The keys in a bundle: that of the journal, and those of witnesses, if they were given."""

    log: str
    witnesses: tuple[str, ...] = ()


class Wanted(Struct, frozen=True, kw_only=True):
    """The records to prove: one, or all about somebody, in a time.

    :ivar seq: the number of the record; ``None``: others are named.
    :ivar about: a user, a client, a service or an address.
    :ivar since, until: UTC microseconds.
    :ivar most: the most records.
    :ivar pseudonyms: a file of keys, for ``about``.
    """

    seq: int | None = None
    about: str | None = None
    since: int | None = None
    until: int | None = None
    most: int = MOST_PROVED
    pseudonyms: Path | None = None

    def numbers(self, directory: Path, until: int) -> list[int]:
        """The numbers of the records; of several, none after the record ``until``.

        :raises JournalError: if there is none, or there are too many.
        """
        if self.seq is not None:
            return [self.seq]
        names = None if self.pseudonyms is None else Names(self.pseudonyms)
        found = []
        for record in read_journal(directory):
            after, before = self.since or 0, record.time + 1 if self.until is None else self.until
            event = record.event if names is None else names.reveal(record.event)
            if record.seq > until:
                break
            if after <= record.time < before and self._is_about(event):
                found.append(record.seq)
            if len(found) > self.most:
                raise JournalError(f"there are more than {self.most} such records: narrow it down, or raise --most")
        if not found:
            raise JournalError(f"{directory} has no such record")
        return found

    def _is_about(self, event: Event) -> bool:
        known = (event.actor, event.claimed, event.session, event.service, event.routing_id, event.peer)
        return self.about is None or self.about in (*known, address_of(event.peer))


def run_prove(
    directory: Path, wanted: Wanted, output: Path, *, stamp: Path | None = None, witnesses: Sequence[str] = ()
) -> int:
    """Write a proof of one record, or a bundle.

    :param output: the file; with the suffix of a tlog-proof, it is one.
    :param stamp: an RFC 3161 time stamp of the checkpoint.
    :param witnesses: verifier keys of witnesses, for the bundle.
    :raises JournalError: if a record cannot be proved, or the file not be written.
    """
    checkpoints = [*sealed_checkpoints(read_manifest(directory / MANIFEST_NAME))]
    seqs = wanted.numbers(directory, last_seq(checkpoints[-1].seal) if checkpoints else 0)
    sealed = _choose(checkpoints, seqs)
    if sealed.key is None:
        raise JournalError(f"the checkpoints of {directory} are not signed, and prove nothing: give the server a key")
    proofs = [*_proofs(directory, sealed, seqs)]
    with os_errors_as(JournalError, f"cannot write {output}"):
        if output.name.endswith(SUFFIX):
            if len(proofs) > 1 or stamp is not None:
                raise JournalError(f"{SUFFIX} is for one record without a time stamp: name a .zip file")
            output.write_text(proofs[0].encode(), "utf-8")
        else:
            keys = Keys(sealed.key.text, tuple(witnesses))
            _write_bundle(output, proofs, sealed, keys, None if stamp is None else stamp.read_bytes())
    said = f"{output}: {len(proofs)} records, by the checkpoint up to record {last_seq(sealed.seal)}"
    write(f"{said}, signed by {sealed.key.text}\n".encode(errors="backslashreplace"))
    return 0


def _choose(checkpoints: Sequence[SealedCheckpoint], seqs: Sequence[int]) -> SealedCheckpoint:
    """The newest checkpoint of all of these records, if possible one that witnesses cosigned."""
    every = [each for each in checkpoints if each.begin <= seqs[0] and seqs[-1] <= last_seq(each.seal)]
    if not every:
        raise JournalError(f"no checkpoint has the records {seqs[0]} to {seqs[-1]}: bussrv journal seal makes one")
    cosigned = [each for each in every if len(each.note.signatures) > 1]
    return (cosigned or every)[-1]


def _proofs(directory: Path, sealed: SealedCheckpoint, seqs: Sequence[int]) -> Iterator[Proof]:
    begin = sealed.begin
    journal = JournalTree(directory, begin)
    tree = journal.tree(sealed.checkpoint.size)
    for seq, line in journal.lines(seqs):
        proof = Proof(seq - begin, tuple(tree.inclusion(seq - begin)), sealed.note, line)
        if not proof.proves(leaf_hashes(line + b"\n")[0]):
            raise JournalError(f"record {seq} is not what was sealed: bussrv journal verify says more")
        yield proof


def _write_bundle(
    output: Path, proofs: Sequence[Proof], sealed: SealedCheckpoint, keys: Keys, stamp: bytes | None
) -> None:
    about = {"count": len(proofs), "origin": sealed.checkpoint.origin, "key": keys.log}
    content = {
        "README.txt": _README.format(**about, stamp="" if stamp is None else _STAMPED).encode(),
        "check.py": files("bussrv.inspection").joinpath("standalone_check.py").read_bytes(),
        "keys.json": msgspec.json.encode(keys) + b"\n",
        "checkpoint.txt": sealed.text.encode(),
        "records.jsonl": b"".join((each.extra or b"") + b"\n" for each in proofs),
        **({} if stamp is None else {"checkpoint.tsr": stamp}),
        **{f"{_seq(each):020d}{SUFFIX}": each.encode().encode() for each in proofs},
    }
    with zipfile.ZipFile(output, "x", zipfile.ZIP_DEFLATED) as bundle:
        for name, data in content.items():
            bundle.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)


def _seq(proof: Proof) -> int:
    return decode(proof.extra or b"").seq


class Trust(Struct, frozen=True, kw_only=True):
    """The keys that the reader of a proof trusts.

    :ivar log: the verifier key of the journal; ``None``: the one in the bundle.
    :ivar witnesses: verifier keys, and ``quorum`` how many of them have to cosign; ``None``: all.
    :ivar authority: the certificate of the authority of time stamps.
    """

    log: str | None = None
    witnesses: tuple[str, ...] = ()
    quorum: int | None = None
    authority: Path | None = None


def run_check(path: Path, trust: Trust) -> int:
    """Check a proof or a bundle, and print the records that it proves.

    :returns: the exit status.
    :raises JournalError: if it cannot be read.
    """
    try:
        content = _content(path)
        text = trust.log
        if text is None:
            if "keys.json" not in content:
                raise JournalError("a proof of one record has no key: give --log-key")
            text = msgspec.json.decode(content["keys.json"], type=Keys).log
        log, witnesses = parse_key(text), [*map(parse_key, trust.witnesses)]
        quorum = len({each.name for each in witnesses}) if trust.quorum is None else trust.quorum
        proofs = [parse_proof(data) for name, data in content.items() if name.endswith(SUFFIX)]
        if not proofs:
            raise NoteError("there is no proof in it")
        for proof in proofs:
            _check(proof, log, witnesses, quorum)
            write((proof.extra or b"") + b"\n")
        if trust.authority is not None:
            _check_stamp(content, proofs, trust.authority)
    except (NoteError, msgspec.DecodeError) as error:
        sys.stderr.write(f"WRONG: {path}: {error}\n")
        return WRONG
    known = "" if trust.log else ", by a key that was not compared with one that you know: use --log-key"
    write(f"OK: {len(proofs)} records of {proofs[0].checkpoint.origin}{known}\n".encode(errors="backslashreplace"))
    return 0


def _content(path: Path) -> dict[str, bytes]:
    try:
        if not zipfile.is_zipfile(path):
            with path.open("rb") as file:
                return {SUFFIX: file.read(MOST_BYTES)}
        with zipfile.ZipFile(path) as bundle:
            if sum(each.file_size for each in bundle.infolist()) > MOST_BUNDLE:
                raise JournalError(f"{path} has more than {MOST_BUNDLE} bytes")
            return {name: bundle.read(name) for name in bundle.namelist()}
    except (OSError, zipfile.BadZipFile, RuntimeError, ValueError) as error:
        raise JournalError(f"cannot read {path}: {error}") from error


def _check(proof: Proof, log: VerifierKey, witnesses: Sequence[VerifierKey], quorum: int) -> None:
    if signed_by(proof.note, log) is None or proof.checkpoint.origin != log.name:
        raise NoteError(f"the checkpoint is not signed by {log.text}")
    count = len({each.name for each in witnesses if signed_by(proof.note, each) is not None})
    if count < quorum:
        raise NoteError(f"{count} of the witnesses cosigned the checkpoint, not {quorum}")
    if proof.extra is None or b"\n" in proof.extra or not proof.proves(leaf_hashes(proof.extra + b"\n")[0]):
        raise NoteError(f"the record of entry {proof.index} is not in the journal")


def _check_stamp(content: dict[str, bytes], proofs: Sequence[Proof], authority: Path) -> None:
    """See that the time stamp is of the checkpoint of the proofs, and right; OpenSSL does it."""
    text = content.get("checkpoint.txt", b"")
    if "checkpoint.tsr" not in content or any(each.note.encode().encode() != text for each in proofs):
        raise NoteError("there is no time stamp of its checkpoint")
    with tempfile.TemporaryDirectory() as place:
        for name in ("checkpoint.txt", "checkpoint.tsr"):
            Path(place, name).write_bytes(content[name])
        command = ["openssl", "ts", "-verify", "-data", "checkpoint.txt", "-in", "checkpoint.tsr", "-CAfile"]
        done = subprocess.run([*command, str(authority.absolute())], cwd=place, capture_output=True, check=False)
    if done.returncode:
        raise NoteError(f"the time stamp is wrong: {done.stderr.decode(errors='replace').strip()[-200:]}")
