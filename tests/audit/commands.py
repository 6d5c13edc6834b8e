"""The command as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

BUSSRV = ("-c", "import sys; from bussrv.cli.main import main; sys.exit(main())")
WITHOUT_SPARK = ("-c", "import sys; sys.modules['pyspark'] = None; from bussrv.cli.main import main; sys.exit(main())")
JOB = ("-m", "bussrv.audit.job")

Ended = subprocess.CompletedProcess[str]


class Started:
    """A command that runs in the directory ``cwd``."""

    def __init__(self, cwd: Path, program: tuple[str, ...], *arguments: str | Path, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *program, *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self) -> Ended:
        """How it ended, once it has."""
        said, complained = self._process.communicate()
        return Ended(self._process.args, self._process.returncode, said, complained)


def run(cwd: Path, program: tuple[str, ...], *arguments: str | Path, **environment: str) -> Ended:
    return Started(cwd, program, *arguments, **environment).ended()
