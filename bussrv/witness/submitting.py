"""Sends the checkpoints of this server's journal to its witnesses, and keeps what they cosign.

A checkpoint goes out after a seal, at most once a minute, and when a segment ends. A witness that is away delays
nobody: the next checkpoint covers what the ones before did. One that refuses says so in the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct
from twisted.internet.defer import CancelledError, Deferred, DeferredList, ensureDeferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv.net.posting import NotPosted, Posted
from bussrv.transparency.notes import Note, NoteError, decimal
from bussrv.transparency.witnessing import CONFLICT, SIZE_TYPE, Submission, WitnessAddress, cosignatures_in

LOOK = 1.0
"""The seconds between two looks at the last seal."""

EVERY = 60.0
"""The seconds between two checkpoints of a segment that grows."""

AWAY = 3600.0
"""The seconds after which a witness that cannot be asked is said in the journal not to cosign."""

_ATTEMPTS = 2
"""The first request may not know the size that the witness cosigned last."""

_MOST_WORDS = 200

log = Logger()


class SealedNote(Struct, frozen=True):
    """The checkpoint of a seal.

    :ivar seal: the hash of the line of the seal.
    :ivar begin: the number of the first record of the tree.
    :ivar size: how many records the tree has.
    :ivar closed: whether the segment has ended.
    """

    seal: str
    begin: int
    size: int
    closed: bool
    note: Note


class SealedJournal(Protocol):
    """The journal, as witnesses need it."""

    def last_checkpoint(self) -> SealedNote | None:
        """The signed checkpoint of the last seal; ``None``: there is none."""

    def growth_proof(self, begin: int, old: int, size: int) -> Deferred[list[bytes]]:
        """The consistency proof between two sizes of its tree.

        :param begin: the number of the first record of the tree.
        :returns: fails with :class:`bussrv.errors.JournalError` if the journal does not have the records any more.
        """

    def cosign(self, sealed: SealedNote, signatures: str) -> None:
        """Keep cosignatures of a checkpoint in the manifest, soon.

        :param signatures: their lines.
        """

    def witnessed(self, witness: str, size: int) -> None:
        """Say in the journal that a witness cosigned so many records."""

    def refused(self, witness: str, size: int, message: str) -> None:
        """Say in the journal that a witness does not cosign."""


class WitnessCondition(Struct, frozen=True):
    """How a witness is doing.

    :ivar size: how many records it has cosigned; ``None``: nothing since the start of this server.
    :ivar trouble: why the last attempt failed; empty: it did not.
    """

    name: str
    size: int | None
    trouble: str


class RefusedByWitness(Exception):
    """A witness does not cosign. The message says why."""


class Submitter:
    """Asks one witness.

    :param post: posts a body to a URL.
    :param seconds: a clock that nobody sets.
    """

    def __init__(
        self,
        address: WitnessAddress,
        journal: SealedJournal,
        post: Callable[[str, bytes], Deferred[Posted]],
        seconds: Callable[[], float],
    ) -> None:
        self._address = address
        self._journal = journal
        self._post = post
        self._seconds = seconds
        self._away_since: float | None = None
        self._begin = 1
        self._known = 0
        self._size: int | None = None
        self._trouble = ""
        self._said = ""

    @property
    def condition(self) -> WitnessCondition:
        """How the witness is doing."""
        return WitnessCondition(self._address.name, self._size, self._trouble)

    async def submit(self, sealed: SealedNote) -> int:
        """Ask it to cosign a checkpoint. Whatever goes wrong is said, and not raised.

        :returns: how many records the journal was given.
        """
        name, size = self._address.name, sealed.size
        if sealed.begin != self._begin:
            # After damage, a journal goes on as another log.
            self._begin, self._known = sealed.begin, 0
        try:
            signatures = await self._cosignatures(sealed)
        except CancelledError:
            raise
        except RefusedByWitness as error:
            self._fail(str(error))
            self._away_since = None
            return self._say_refused(size, self._trouble)
        except Exception as error:
            self._fail(str(error) or type(error).__name__)
            if self._away_since is None:
                self._away_since = self._seconds()
            is_long = self._seconds() - self._away_since >= AWAY
            return self._say_refused(size, "it cannot be asked for an hour or more") if is_long else 0
        self._known = self._size = size
        self._trouble = self._said = ""
        self._away_since = None
        log.info("the witness {name} cosigned {size} records", event="witness.cosigned", name=name, size=size)
        self._journal.cosign(sealed, signatures)
        self._journal.witnessed(name, size)
        return 1

    def _say_refused(self, size: int, message: str) -> int:
        """Say in the journal that it does not cosign, once for each reason. :returns: how many records that takes."""
        if self._said == message:
            return 0
        self._said = message
        self._journal.refused(self._address.name, size, message)
        return 1

    def _fail(self, message: str) -> None:
        message = message[:_MOST_WORDS]
        if message != self._trouble:
            log.warn(
                "the witness {name} does not cosign: {message}",
                event="witness.trouble",
                name=self._address.name,
                message=message,
            )
        self._trouble = message

    async def _cosignatures(self, sealed: SealedNote) -> str:
        """The lines of its cosignatures.

        :raises RefusedByWitness: it does not cosign.
        :raises NotPosted, JournalError: it cannot be asked at the moment.
        """
        size = sealed.size
        for _ in range(_ATTEMPTS):
            if self._known > size:
                raise RefusedByWitness(f"it has cosigned {self._known} records, and this journal has {size}")
            proof = await self._journal.growth_proof(sealed.begin, self._known, size) if self._known else []
            body = Submission(self._known, tuple(proof), sealed.note).encode()
            answer = await self._post(f"{self._address.url.rstrip('/')}/add-checkpoint", body)
            if answer.status != CONFLICT or answer.content_type.partition(";")[0].strip() != SIZE_TYPE:
                return self._checked(answer, sealed.note.text)
            self._known = _size_in(answer.body)
        raise NotPosted("it says another size each time")

    def _checked(self, answer: Posted, text: str) -> str:
        said = answer.body.decode("utf-8", "replace").strip()
        if answer.status != 200:
            if 400 <= answer.status < 500 and answer.status != 429:
                raise RefusedByWitness(f"{answer.status} {said}")
            raise NotPosted(f"it answered {answer.status} {said}")
        try:
            found = cosignatures_in(answer.body, text, self._address.keys)
        except NoteError as error:
            raise RefusedByWitness(f"its answer is wrong: {error}") from error
        if not found:
            raise RefusedByWitness("it cosigned with a key that is not known here")
        return "".join(signature.line for signature, _ in found)


def _size_in(body: bytes) -> int:
    try:
        return decimal(body.decode("ascii").removesuffix("\n"), "the size that it says")
    except (NoteError, UnicodeDecodeError) as error:
        raise NotPosted("the size that it says is none") from error


class Witnesses:
    """Asks all witnesses, side by side, after seals."""

    def __init__(
        self,
        addresses: Sequence[WitnessAddress],
        journal: SealedJournal,
        post: Callable[[str, bytes], Deferred[Posted]],
        reactor: Any,
    ) -> None:
        self._journal = journal
        self._reactor = reactor
        self._submitters = [Submitter(each, journal, post, reactor.seconds) for each in addresses]
        self._under_way: dict[Submitter, Deferred[Any]] = {}
        self._looking = LoopingCall(self._look)
        self._looking.clock = reactor
        self._last = ""
        self._sent_at = -EVERY
        self._covered = self._said = 0

    def conditions(self) -> list[WitnessCondition]:
        """How each is doing."""
        return [each.condition for each in self._submitters]

    def start(self) -> None:
        """Begin."""
        self._looking.start(LOOK)

    def stop(self) -> Deferred[Any]:
        """End. :returns: fires when nobody is asked any more."""
        if self._looking.running:
            self._looking.stop()
        under_way = list(self._under_way.values())
        for each in under_way:
            each.cancel()
        return DeferredList(under_way)

    def _look(self) -> None:
        sealed = self._journal.last_checkpoint()
        if sealed is None or sealed.seal == self._last:
            return
        now = self._reactor.seconds()
        if not sealed.closed and (now - self._sent_at < EVERY or self._is_own(sealed)):
            return
        self._last, self._sent_at = sealed.seal, now
        self._covered, self._said = sealed.size, 0
        for each in self._submitters:
            # One that still waits for its answer is asked again after the next seal.
            if each not in self._under_way:
                self._ask(each, sealed)

    def _is_own(self, sealed: SealedNote) -> bool:
        """Whether nothing was journaled since the last checkpoint that was sent but what witnesses said to it. If that
        were sent, too, a server without clients would go on for ever.
        """
        return 0 <= sealed.size - self._covered <= self._said and self._sent_at >= 0

    def _ask(self, submitter: Submitter, sealed: SealedNote) -> None:
        asking = self._under_way[submitter] = ensureDeferred(submitter.submit(sealed))
        asking.addBoth(self._answered, submitter)

    def _answered(self, result: int | Failure, submitter: Submitter) -> None:
        self._under_way.pop(submitter, None)
        self._said += result if isinstance(result, int) else 0
