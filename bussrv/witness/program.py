"""``bussrv witness``: a witness in a process of its own."""

from __future__ import annotations

import hashlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from twisted.internet.endpoints import serverFromString

from bussrv.errors import BadValue, ConfigError, JournalError
from bussrv.journal.keys import read_private
from bussrv.options import rows
from bussrv.settings import WITNESS, Settings
from bussrv.transparency.cosignatures import SigningKey, has_ml_dsa
from bussrv.transparency.notes import COSIGNATURE, ML_DSA_44, NoteError, VerifierKey, name_fault, parse_key
from bussrv.transparency.witnessing import Keys
from bussrv.witness.memory import WitnessMemory
from bussrv.witness.site import WitnessConnections, WitnessSite
from bussrv.witness.witness import Witness

_ML_DSA_CONTEXT = b"bussrv witness ML-DSA-44\n"


class WitnessSettings(Struct, frozen=True, kw_only=True):
    """How a witness runs.

    :ivar name: of the witness, and of its keys.
    :ivar key: the file of its private key, Ed25519.
    :ivar logs: the verifier keys of the logs that it knows.
    :ivar listen: the server endpoint, as Twisted describes it.
    :ivar state: the directory of what it has cosigned.
    :ivar ml_dsa: whether it cosigns with an ML-DSA-44 key, too.
    :ivar limits: of its port.
    """

    name: str
    key: Path
    logs: tuple[str, ...]
    listen: str
    state: Path
    ml_dsa: bool = False
    limits: Settings = Settings()


def signing_keys(name: str, seed: bytes, *, ml_dsa: bool | None) -> list[SigningKey]:
    """The keys of a witness, all made of one secret.

    :param ml_dsa: whether it has an ML-DSA-44 key, too; ``None``: if the installed ``cryptography`` has ML-DSA.
    :raises ConfigError: the name cannot be one, or the installed ``cryptography`` has no ML-DSA.
    """
    if (wrong := name_fault(name)) is not None:
        raise ConfigError(wrong)
    found = [SigningKey(name, COSIGNATURE, seed)]
    if has_ml_dsa() if ml_dsa is None else ml_dsa:
        # A key signs in one way only.
        found.append(SigningKey(name, ML_DSA_44, hashlib.sha256(_ML_DSA_CONTEXT + seed).digest()))
    try:
        for each in found:
            each.verifier  # noqa: B018  it is made with what is installed
    except NoteError as error:
        raise ConfigError(str(error)) from error
    return found


def keys_of_logs(texts: Sequence[str]) -> Keys:
    """The keys of logs by their origins, which are the names of their keys.

    :raises ConfigError: one of them is no verifier key.
    """
    found: dict[str, list[VerifierKey]] = {}
    for text in texts:
        try:
            key = parse_key(text)
        except NoteError as error:
            raise ConfigError(str(error)) from error
        found.setdefault(key.name, []).append(key)
    return found


def limits_of(texts: Sequence[str]) -> Settings:
    """The limits of the port of a witness: the defaults, and those that texts such as ``witness-max-body=9000`` set.

    :raises ConfigError: says what is wrong with one of them.
    """
    known = {each.name: each for each in rows(Settings) if each.group is WITNESS}
    found: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in known:
            raise ConfigError(f"--limit {text}: {name!r} is none of {', '.join(known)}")
        try:
            found[known[name].sets] = known[name].kind.check(value)
        except BadValue as error:
            raise ConfigError(f"--limit {text}: {error}") from error
    return Settings(**found)


def open_witness(settings: WitnessSettings, utc: Callable[[], int]) -> tuple[Witness, WitnessMemory]:
    """The witness, and what it remembers, to be closed.

    :raises ConfigError, JournalError, OSError: it cannot begin.
    """
    keys = keys_of_logs(settings.logs)
    signing = signing_keys(settings.name, read_private(settings.key).seed, ml_dsa=settings.ml_dsa)
    memory = WitnessMemory(settings.state)
    return Witness(keys, signing, memory, utc), memory


def run(settings: WitnessSettings, say: Callable[[str], None] = print) -> None:
    """Serve until a signal comes. Then say how requests were answered, and which limits were reached.

    :raises ConfigError, JournalError, OSError: it cannot begin.
    """
    from twisted.internet import reactor as installed

    reactor: Any = installed
    witness, memory = open_witness(settings, lambda: time.time_ns() // 1000)
    failures: list[BaseException] = []
    counters: Counter[str] = Counter()
    site = WitnessSite(witness, reactor, settings.limits, counters)
    connections = WitnessConnections(site, reactor)

    def begin() -> None:
        try:
            listening = serverFromString(reactor, settings.listen).listen(connections)
        except ValueError as error:
            failed(ConfigError(f"--listen {settings.listen}: {error}"))
        else:
            listening.addCallbacks(ready, lambda failure: failed(failure.value))

    def ready(port: Any) -> None:
        for each in witness.verifiers:
            say(f"verifier key {each}")
        say(f"witness of {len(settings.logs)} logs on {_place(port.getHost())}")
        sys.stdout.flush()
        reactor.addSystemEventTrigger("before", "shutdown", port.stopListening)
        reactor.addSystemEventTrigger("before", "shutdown", connections.end)

    def failed(error: BaseException) -> None:
        failures.append(error)
        reactor.stop()

    reactor.callWhenRunning(begin)
    try:
        reactor.run()
    finally:
        memory.close()
    say(f"answers: {_counts(site.answers)}; limits that were reached: {_counts(counters)}")
    if failures:
        raise JournalError(str(failures[0])) from failures[0]


def _counts(counter: Mapping[Any, int]) -> str:
    return ", ".join(f"{each} {counter[each]}" for each in sorted(counter)) or "none"


def _place(host: Any) -> str:
    return f"{host.host} port {host.port}" if hasattr(host, "port") else str(getattr(host, "name", host))
