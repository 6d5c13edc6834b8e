"""An audit that is made again and again, until a signal comes: ``bussrv audit --every``."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event

from bussrv.errors import BussrvError


def repeat(rounds: AbstractContextManager[Callable[[], None]], every: int, failed: Callable[[Exception], None]) -> None:
    """Make rounds until SIGINT or SIGTERM comes. The one that goes on then is the last; a second signal breaks it off.

    :param rounds: gives what makes a round, with all that it needs.
    :param every: seconds from the end of a round to the beginning of the next one.
    :param failed: is given the error of a round that failed, unless it is the first one.
    :raises BussrvError: the first round fails, or what all of them need.
    :raises OSError: the first round fails because of a file.
    """

    def try_round(make_round: Callable[[], None]) -> None:
        try:
            make_round()
        except (BussrvError, OSError) as error:
            failed(error)

    with _until_a_signal() as stopped:
        try:
            with rounds as make_round:
                make_round()
                while not stopped.wait(every):
                    try_round(make_round)
        except (BussrvError, OSError):
            # A terminal, or who stops a service, sends the signal to Java and to the processes that read, too.
            if not stopped.is_set():
                raise


@contextmanager
def _until_a_signal() -> Iterator[Event]:
    """An event that the first signal sets. Later ones do what they did before."""
    stopped = Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def stop(*_: object) -> None:
        restore()
        stopped.set()

    for number in before:
        signal.signal(number, stop)
    try:
        yield stopped
    finally:
        restore()
