"""The server as a witness of other journals, such as those of the servers that it is linked with (``--witness-for``).

It answers as ``bussrv witness`` does, on a port of its own: whoever asks needs no login, so the admin port is no place
for it. The checkpoints that it has cosigned are kept beside its journal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.endpoints import serverFromString
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort
from twisted.logger import Logger

from bussrv.addresses import peer_text
from bussrv.bus.bus import Bus
from bussrv.bus.interfaces import Use
from bussrv.errors import ConfigError, JournalError
from bussrv.journal.keys import read_private
from bussrv.net.transport.endpoint_faults import explain
from bussrv.server.configuration.config import Config
from bussrv.server.configuration.faults import noting
from bussrv.transparency.cosignatures import SigningKey
from bussrv.turns.clock import Clock
from bussrv.values import shown
from bussrv.witness.memory import WitnessMemory
from bussrv.witness.program import keys_of_logs, signing_keys
from bussrv.witness.site import WitnessConnections, WitnessSite
from bussrv.witness.witness import Witness

SUFFIX = ".witness"
"""The directory of what was cosigned has the name of the journal with this ending."""

log = Logger()


def keys_in(config: Config, reactor: Any) -> Sequence[SigningKey]:
    """The keys that the server cosigns with; empty: it is no witness.

    :raises ConfigError: an option is missing, or the file or the endpoint cannot be used.
    """
    key, name = config.witness_key, config.witness_name
    if key is None or config.witness_listen is None:
        if config.witness_for:
            missing = "--witness-key and --witness-name" if key is None else "--witness-listen"
            raise ConfigError(f"{config.place('witness-for')}: this server is no witness: set {missing}, too")
        return ()
    if name is None:
        raise ConfigError(f"{config.place('witness-key')}: a witness has a name: set --witness-name, too")
    if config.journal is None:
        raise ConfigError(f"{config.place('witness-key')}: what was cosigned is kept beside the journal, which is off")
    faults: list[str] = []
    with noting(config.place("witness-listen"), faults):
        _endpoint(reactor, config.witness_listen)
    with noting(config.place("witness-key"), faults):
        seed = read_private(key).seed
        if config.journal_key is not None and read_private(config.journal_key).seed == seed:
            raise ConfigError("it is the key of the journal: a witness needs one of its own")
        signing = signing_keys(name, seed, ml_dsa=None)
        if not faults:
            return signing
    raise ConfigError(*faults)


def _endpoint(reactor: Any, description: str) -> Any:
    try:
        return serverFromString(reactor, description)
    except Exception as error:
        # Endpoints are plugins of Twisted, which raise what they like.
        raise ConfigError(f"{shown(description)} is not a stream endpoint: {explain(error)}") from error


class OwnWitness:
    """The witness that the server is, if it is one.

    :param config: the configuration at the start.
    :ivar answers: how many requests were answered, by status; empty: it is no witness.
    """

    def __init__(self, config: Config, bus: Bus, clock: Clock, reactor: Any) -> None:
        self.answers: Counter[int] = Counter()
        self._config = config
        self._bus = bus
        self._clock = clock
        self._reactor = reactor
        self._witness: Witness | None = None
        self._port: IListeningPort | None = None
        self._end_connections = lambda: None

    def prepare(self, config: Config) -> Use:
        """Know the logs that the option names from now on. :returns: puts that into effect; cannot fail.

        :raises ConfigError: the server is no witness.
        """
        keys_in(config, self._reactor)
        return partial(self._use, config)

    def _use(self, config: Config) -> None:
        if self._witness is not None:
            self._witness.use(keys_of_logs(config.witness_for))

    def open(self, faults: list[str]) -> None:
        """Read what was cosigned, and listen.

        :param faults: gets a sentence if that is not possible.
        """
        config, signing = self._config, keys_in(self._config, self._reactor)
        if not signing or config.journal is None:
            return
        try:
            memory = WitnessMemory(directory(config.journal))
        except (JournalError, OSError) as error:
            faults.append(f"{config.place('witness-key')}: {error}")
            return
        self._witness = Witness(keys_of_logs(config.witness_for), signing, memory, self._clock.utc)
        with noting(config.place("witness-listen"), faults):
            self._listen(self._witness, config.witness_listen or "")

    def _listen(self, witness: Witness, description: str) -> None:
        site = WitnessSite(witness, self._reactor, self._bus.settings, self._bus.counters)
        self.answers = site.answers
        connections = WitnessConnections(site, self._reactor)
        self._end_connections = connections.end
        opened: list[Any] = []
        _endpoint(self._reactor, description).listen(connections).addBoth(opened.append)
        (port,) = opened
        if not IListeningPort.providedBy(port):
            why = port.value
            said = why.socketError if isinstance(why, CannotListenError) else why
            raise ConfigError(f"cannot listen on {description}: {said}")
        self._port = port

    def say(self) -> None:
        """Log where it listens, and its verifier keys."""
        if self._witness is None or self._port is None:
            return
        for key in self._witness.verifiers:
            log.info(
                "  witness on {address}: verifier key {key}",
                event="server.witness",
                address=peer_text(self._port.getHost()),
                key=key,
            )

    def stop(self) -> Deferred[Any]:
        """Close the port, and let another process use what was kept. :returns: fires when the port is closed."""
        witness, self._witness = self._witness, None
        port, self._port = self._port, None
        closed = succeed(None) if port is None else maybeDeferred(port.stopListening)
        self._end_connections()
        if witness is not None:
            witness.close()
        return closed


def directory(journal: Path) -> Path:
    """The directory of what a server cosigned.

    :param journal: the directory of its journal.
    """
    return journal.with_name(journal.name + SUFFIX)
