"""A process that changes a spool as fast as it can and says what was confirmed; killed by a test."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from bussrv.settings import Settings
from bussrv.spool.entries import Append, AppendToAll, Claim, Put, Remove, Written
from bussrv.spool.file import SpoolFile
from bussrv.spool.spool import Spool
from bussrv.turns.clock import SystemClock
from tests.spool.support import Reactor

OUTSTANDING = 20
LIMITS = Settings(max_spool_entries=10**9, max_spool=1 << 40, max_spool_per_address=1 << 40, max_spool_total=1 << 40)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def main(directory: Path, boot: str) -> None:
    reactor = Reactor()
    spool = Spool(SpoolFile(directory), LIMITS, Counter(), SystemClock(), reactor)
    asked = 0

    def ask(_: object = None) -> None:
        nonlocal asked
        asked += 1
        name = b"%s.%d" % (boot.encode(), asked)
        payload = name + b"." + b"x" * (asked % 7 * 700)
        # The number of boots and of calls so far, always in one with an entry.
        put = Put(owner="ann", kind="state", key=boot, payload=b"%d" % asked)
        alone = Append(owner="ann", kind="queue", payload=payload)
        tail = payload.removeprefix(name)
        to_all = AppendToAll(owners=("ann", "bob"), kind="queue", heads=(name, name), payload=tail)
        done = spool.write([to_all if asked % 2 else alone, put])
        done.addCallback(confirmed, name).addCallback(ask)

    def confirmed(written: Written, name: bytes) -> None:
        number = written.numbers[0]
        say("kept", number, name.decode())
        if number % 3 == 0:
            say("leaves", number)
            spool.write([Remove(owner="ann", kind="queue", number=number)]).addCallback(gone, number)

    def gone(_: Any, number: int) -> None:
        say("gone", number)

    spool.write([Claim(owner=each, address="127.0.0.1") for each in ("ann", "bob")])
    for _ in range(OUTSTANDING):
        ask()
    reactor.run_until(lambda: False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
