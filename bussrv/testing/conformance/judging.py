"""Judge a format: try every promise, and say what came of it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct

from bussrv.errors import ConfigError
from bussrv.interfaces import IWireFormat
from bussrv.testing.conformance.adapter import Adapter
from bussrv.testing.conformance.lab import Restless, Unreadable
from bussrv.testing.conformance.promises import (
    delivery,
    exchange,
    framing,
    life,
    limits,
    machine,
    oddities,
    rights,
    writing,
)
from bussrv.testing.conformance.seen import deeds_of, last_of
from bussrv.testing.conformance.trial import PATIENCE, Broken, Promise, Trial
from bussrv.testing.server import RunningServer

PROMISES: tuple[Promise, ...] = (
    *framing.PROMISES,
    *oddities.PROMISES,
    *life.PROMISES,
    *delivery.PROMISES,
    *exchange.PROMISES,
    *writing.PROMISES,
    *rights.PROMISES,
    *limits.PROMISES,
    *machine.PROMISES,
)

Outcome = Literal["kept", "broken", "not applicable"]


class Verdict(Struct, frozen=True):
    """What came of one promise.

    :ivar sentence: what is wrong, or why it does not apply; empty if the promise is kept.
    :ivar seconds: that it took.
    :ivar clients: a line for each of the last clients if the promise is broken: what it did, and the last that it sent,
        received and was refused. Otherwise a line for all clients that did the same.
    """

    promise: Promise
    outcome: Outcome
    sentence: str = ""
    seconds: float = 0.0
    clients: tuple[str, ...] = ()


def installed_format(name: str) -> IWireFormat:
    """The plugin of a format.

    :raises ConfigError: no plugin of that name is installed.
    """
    from bussrv.server.configuration.plugins import installed

    found = installed()
    for each in found.formats:
        if each.name == name:
            return each
    raise ConfigError(f"no plugin of a wire format named {name!r} is installed", *found.left_out)


def judge_one(
    promise: Promise,
    adapter: Adapter,
    installed: Callable[[str], IWireFormat] = installed_format,
    seed: int = 0,
    *,
    start: Callable[..., RunningServer] = RunningServer,
    thorough: bool = False,
    patience: float = PATIENCE,
) -> Verdict:
    """Try one promise.

    :param installed: finds the plugin of a format by its name.
    :param seed: of everything that is drawn.
    :param start: starts a server in a process of its own.
    :param thorough: whether every place is tried where a sample would take less time.
    :param patience: seconds until something that has not come from a process never will.
    """
    reason = adapter.why_not(promise.needs)
    if reason is not None:
        return Verdict(promise, "not applicable", reason)
    begun = time.monotonic()
    trial = Trial(adapter, installed, seed, start=start, thorough=thorough, patience=patience)
    try:
        sentence = _try(promise, trial)
    finally:
        trial.close()
    clients = last_of(trial.seen_last) if sentence else deeds_of(trial.seen)
    return Verdict(promise, "broken" if sentence else "kept", sentence, time.monotonic() - begun, clients)


def _try(promise: Promise, trial: Trial) -> str:
    """:returns: what is wrong."""
    try:
        promise.judge(trial)
    except Broken as broken:
        said = str(broken)
        trial.read_rest()
    except Unreadable as error:
        said = f"a client cannot understand what it is sent: {error}"
    except Restless as error:
        said = str(error)
    except NotImplementedError as error:
        return f"the adapter has no method for a capability that it does not declare absent: {error or 'see its class'}"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}, line {place.lineno}"
        said = f"the trial cannot go on: {type(error).__name__}: {error} ({where})"
    else:
        failure = trial.failure()
        return f"the format fails: {failure}" if failure else ""
    failure = trial.failure()
    return f"{said}, since the format fails: {failure}" if failure and failure not in said else said
