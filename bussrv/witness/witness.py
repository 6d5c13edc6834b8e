"""Judges, keeps and cosigns checkpoints. Blocking: it waits for the disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from threading import Lock

from bussrv.transparency.checkpoints import Checkpoint
from bussrv.transparency.cosignatures import SigningKey
from bussrv.transparency.notes import Note, NoteSignature
from bussrv.transparency.witnessing import Keys, Submission, judge
from bussrv.witness.memory import Cosigned, WitnessMemory

_SECOND = 1_000_000


class Witness:
    """A witness. Its methods may be called in any thread.

    :param keys: the logs that it knows, and their keys.
    :param signing: its own keys, of cosignatures.
    :param utc: the clock, UTC microseconds.
    """

    def __init__(
        self, keys: Keys, signing: Sequence[SigningKey], memory: WitnessMemory, utc: Callable[[], int]
    ) -> None:
        self.use(keys)
        self._signing = signing
        self._memory = memory
        self._utc = utc
        self._turn = Lock()

    def use(self, keys: Keys) -> None:
        """Know other logs from now on. Checkpoints of those that are not named any more stay."""
        self._keys = keys
        self._origins = {origin_hash(each): each for each in keys}

    def close(self) -> None:
        """Cosign nothing any more, and let another process use what was kept."""
        with self._turn:
            self.use({})
            self._memory.close()

    @property
    def verifiers(self) -> list[str]:
        """Its verifier keys, to be given to logs and to those who check."""
        return [each.verifier.text for each in self._signing]

    def cosign(self, submission: Submission) -> list[NoteSignature]:
        """Cosign a checkpoint. It is on the disk of the witness when this returns.

        :raises bussrv.transparency.witnessing.Rejection: it may not be cosigned.
        :raises OSError: it cannot be kept, and so is not cosigned.
        """
        with self._turn:
            keys = self._keys
            checkpoint = judge(submission, keys, self._latest)
            now = self._utc()
            given = [each.sign(submission.note.text, now // _SECOND) for each in self._signing]
            known = self._memory.newest(checkpoint.origin)
            if known is None or known.checkpoint.size < checkpoint.size:
                trusted = {(each.name, each.id) for each in keys[checkpoint.origin]}
                own = [each for each in submission.note.signatures if (each.name, each.id) in trusted]
                self._memory.add(Cosigned(checkpoint, Note(submission.note.text, (*own, *given))), now)
        return given

    def newest(self, hashed: str) -> Note | None:
        """The newest checkpoint of a log that was cosigned.

        :param hashed: the :func:`origin_hash` of the log.
        """
        origin = self._origins.get(hashed)
        known = None if origin is None else self._memory.newest(origin)
        return None if known is None else known.note

    def _latest(self, origin: str) -> Checkpoint | None:
        known = self._memory.newest(origin)
        return None if known is None else known.checkpoint


def origin_hash(origin: str) -> str:
    """How a log is named in a path: SHA-256 of its origin, in 64 hexadecimal digits."""
    return sha256(origin.encode()).hexdigest()
