"""The command as a process of its own, and in the one Spark session of all tests."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

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


def called(
    spark: SparkSession | None,
    main: Callable[[Sequence[str]], int],
    cwd: Path,
    *arguments: str,
    encoding: str = "utf-8",
) -> Ended:
    """What a ``main`` says, and how it ends, with that session instead of one of its own.

    :param encoding: that of its standard output.
    """
    said = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
    complained = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(complained):
        patch.chdir(cwd)
        patch.setattr("bussrv.audit.spark.session.spark_session", lambda *_, **__: nullcontext(spark))
        status = main(arguments)
    said.seek(0)
    return Ended(arguments, status, said.read(), complained.getvalue())


def die(*_: object) -> None:
    """End this process, which another one started, as the system does when memory runs out."""
    assert multiprocessing.parent_process() is not None
    os.kill(os.getpid(), signal.SIGKILL)
