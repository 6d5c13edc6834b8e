"""Ten minutes of churn: ``python -m tests.soak [--seconds 600] [--seed NUMBER] [--keep DIRECTORY]``. Linux only.

Two servers are linked over TLS. Clients of all four wire formats come and go at both, politely or not; some read
nothing, some begin handshakes and do not end them. Every 5 seconds each server reads its configuration and its
certificates again, half of them wrong; the link is cut now and then; each server is killed twice and started again.

At the end it says what holds, with figures. Exit status: 0 everything holds, 1 something does not. The same seed makes
the same plan and the same clients; when each of them does something is up to the machine.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.run import Soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--seconds", type=float, default=600.0, help="memory is judged from 600 on")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument(
        "--keep", type=Path, default=None, help="directory for the journals and the audit, new or empty"
    )
    arguments = parser.parse_args()
    seed = secrets.randbelow(1 << 31) if arguments.seed is None else arguments.seed
    begun = time.monotonic()

    def say(sentence: str) -> None:
        print(f"{time.monotonic() - begun:6.1f} s  {sentence}", flush=True)  # noqa: T201

    say(f"the seed is {seed}")
    with tempfile.TemporaryDirectory(prefix="bussrv-soak-") as scratch:
        directory = Path(scratch) if arguments.keep is None else arguments.keep
        directory.mkdir(parents=True, exist_ok=True)
        soak = Soak(directory, arguments.seconds, seed, say)
        checks = soak.run()
    say(f"{soak.kills} kills, {soak.cuts} cuts of the link")
    for each in checks:
        print(each)  # noqa: T201
    failed = [each for each in checks if not each.holds]
    say(f"{len(failed)} of {len(checks)} do not hold" if failed else f"all {len(checks)} hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
