"""The witnesses that cosign the journal: asked while the server runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, succeed

from bussrv import events as ev
from bussrv.bus.interfaces import Use
from bussrv.errors import ConfigError
from bussrv.net.posting import Posted, Poster
from bussrv.registry.changes.registry import Registry
from bussrv.server.configuration.config import Config
from bussrv.server.running.journal import JournalPlace
from bussrv.transparency.witnessing import WitnessAddress, parse_witness
from bussrv.witness.submitting import WitnessCondition, Witnesses


class WitnessesInEffect:
    """The witnesses of a running server.

    :param place: the place of its journal; one of another kind has no seals, and so nothing to cosign.
    """

    def __init__(self, place: object, registry: Registry, reactor: Any) -> None:
        self._journal = WitnessedJournal(place, registry) if isinstance(place, JournalPlace) else None
        self._reactor = reactor
        self._poster = Poster(reactor)
        self._addresses: Sequence[WitnessAddress] = []
        self._asking: Witnesses | None = None
        self._is_started = False

    def prepare(self, config: Config) -> Use:
        """Ask those whom the option names from now on. :returns: puts that into effect; cannot fail.

        :raises ConfigError: the journal has no key, so that there is nothing to cosign.
        """
        if config.witness and config.journal is not None and config.journal_key is None:
            raise ConfigError(f"{config.place('witness')}: witnesses cosign signed checkpoints: set --journal-key, too")
        return partial(self._use, list(map(parse_witness, config.witness)))

    def conditions(self) -> list[WitnessCondition]:
        """How each is doing."""
        return [] if self._asking is None else self._asking.conditions()

    def start(self) -> None:
        """Begin to ask."""
        self._is_started = True
        if self._asking is not None:
            self._asking.start()

    def stop(self) -> Deferred[Any]:
        """Ask no more. :returns: fires when nobody is asked."""
        asking, self._asking = self._asking, None
        return succeed(None) if asking is None else asking.stop()

    def _use(self, addresses: Sequence[WitnessAddress]) -> None:
        if addresses == self._addresses or self._journal is None:
            return
        self._addresses = addresses
        self.stop()
        if addresses:
            self._asking = Witnesses(addresses, self._journal, self._post, self._reactor)
            if self._is_started:
                self._asking.start()

    def _post(self, url: str, body: bytes) -> Deferred[Posted]:
        return self._poster.post(url, body, {"Content-Type": "text/plain; charset=utf-8"})


class WitnessedJournal:
    """The journal of a running server, as witnesses need it."""

    def __init__(self, place: JournalPlace, registry: Registry) -> None:
        self._registry = registry
        self.last_checkpoint = place.checkpoints.last_checkpoint
        self.growth_proof = place.checkpoints.growth_proof
        self.cosign = place.checkpoints.cosign

    def witnessed(self, witness: str, size: int) -> None:
        """See :class:`bussrv.witness.submitting.SealedJournal`."""
        self._registry.note(ev.SealWitnessed(witness=witness, size=size))

    def refused(self, witness: str, size: int, message: str) -> None:
        """See :class:`bussrv.witness.submitting.SealedJournal`."""
        self._registry.note(ev.SealRefused(witness=witness, size=size, message=message))
