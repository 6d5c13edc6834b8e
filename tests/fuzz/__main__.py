"""Fuzz a target, guided by coverage: ``python -m tests.fuzz TARGET --seconds 60 [--keep]``. Needs atheris.

What makes the target fail is written to ``fault-…`` in the directory ``--faults``; the exit status is 1 then. With
``--keep``, the inputs that reach something new are added to the corpus, and those that reach nothing more are dropped.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.corpus import LONGEST, keep, spread
from tests.fuzz.targets import TARGETS

ONE = """
import sys, atheris
from twisted.logger import globalLogBeginner
# Or everything that is logged would be kept.
globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
with atheris.instrument_imports(include=["bussrv"]):
    from tests.fuzz.targets import TARGETS
atheris.Setup(sys.argv[:1] + sys.argv[2:], TARGETS[sys.argv[1]])
atheris.Fuzz()
"""

SECONDS_AN_INPUT = 5


def fuzz(name: str, *options: str | Path) -> int:
    """Run libFuzzer with a target. :returns: its exit status."""
    limits = (f"-timeout={SECONDS_AN_INPUT}", f"-max_len={LONGEST}", "-rss_limit_mb=2048", "-print_final_stats=1")
    return subprocess.run([sys.executable, "-c", ONE, name, *limits, *options], check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("target", choices=[*TARGETS, "all"])
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--server-seconds", type=int, default=None, help="for the whole server, if others than that")
    parser.add_argument("--keep", action="store_true", help="add what is new to the corpus")
    parser.add_argument("--faults", type=Path, default=Path(), help="directory for inputs that fail")
    arguments = parser.parse_args()
    failed = []
    for name in TARGETS if arguments.target == "all" else [arguments.target]:
        with tempfile.TemporaryDirectory() as scratch:
            corpus = Path(scratch)
            spread(name, corpus)
            faults = f"-artifact_prefix={arguments.faults / f'fault-{name}-'}"
            is_other = name == "server" and arguments.server_seconds is not None
            seconds = arguments.server_seconds if is_other else arguments.seconds
            if fuzz(name, f"-max_total_time={seconds}", faults, corpus):
                failed.append(name)
            elif arguments.keep:
                keep(name, (path.read_bytes() for path in corpus.iterdir()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
