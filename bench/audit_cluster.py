"""The memory of the driver of an audit on a standalone cluster: two workers with one core each, on this machine.

Prints the peaks of the driver's processes in each phase: Java, and everything else. With ``--cgroup`` the driver joins
that cgroup, whose limit somebody has set: what the kernel counts there are its processes and their share of the page
cache, and neither the workers nor the master. With cgroups of version 2::

    mkdir /sys/fs/cgroup/driver && echo 1G >/sys/fs/cgroup/driver/memory.max

Run as ``python bench/audit_cluster.py JOURNAL... --out DIR``, with journals that ``bussrv journal synth`` made up.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
from audit_meter import Meter
from audit_spark import Metered

from bussrv.audit.job import audit, prepare
from bussrv.audit.spark.session import spark_session

HERE = "127.0.0.1"
WORKERS = 2
PATIENCE = 300.0
"""Seconds for a process of the cluster to start."""


@contextmanager
def standalone(root: Path, memory: str) -> Iterator[str]:
    """A cluster, whose processes end afterwards. Yields the URL of its master.

    :param root: a directory for its logs, and for what its workers write.
    :param memory: that of each worker.
    """
    with ExitStack() as stack:

        def start(name: str, said: str, *arguments: str) -> str:
            log = root / f"{len(list(root.glob('*.log')))}.log"
            home = Path(pyspark.__file__).parent
            program = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", HERE]
            settings = {"SPARK_LOCAL_IP": HERE, "SPARK_HOME": str(home), "SPARK_LOCAL_DIRS": str(root)}
            with log.open("wb") as file:
                process = subprocess.Popen(
                    [*program, "--port", "0", "--webui-port", "0", *arguments],
                    env={**os.environ, **settings},
                    stdout=file,
                    stderr=file,
                )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            give_up = time.monotonic() + PATIENCE
            while not (found := re.search(said, log.read_text())):
                if process.poll() is not None or time.monotonic() > give_up:
                    raise RuntimeError(f"{name} did not start: {log.read_text()}")
                time.sleep(0.1)
            return found[1]

        url = start("master.Master", r"master at (spark://\S+)")
        for number in range(WORKERS):
            limits = ("--cores", "1", "--memory", memory, "--work-dir", str(root / str(number)))
            start("worker.Worker", r"registered with master (\S+)", *limits, url)
        yield url


def direct(master: str, journals: list[str], out: Path) -> None:
    """Be the driver: audit journals, and print what each phase took."""
    prepare()
    meter = Meter()
    with spark_session(master) as spark:
        verdict = audit(spark, journals, out, progress=Metered(meter), ends_cluster=True)
    print(f"{verdict.summary['records']:,} records of {len(verdict.summary['servers'])} servers")
    for phase in meter.phases:
        parts = (f"{each / 1e6:.0f} MB" for each in (phase.java, phase.python, phase.java + phase.python))
        print(f"{phase.name}: {phase.seconds:.0f} s, Java {next(parts)}, Python {next(parts)}, at most {next(parts)}")


def main() -> int:
    """Start a cluster and a driver, or be that driver. :returns: the driver's exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("journals", nargs="+", metavar="JOURNAL")
    parser.add_argument("--out", type=Path, required=True, help="the directory for the result")
    parser.add_argument("--cgroup", type=Path, help="the directory of a cgroup that the driver joins")
    parser.add_argument("--worker-memory", default="1500m", help="of Java in each worker")
    parser.add_argument("--master", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.master:
        direct(given.master, given.journals, given.out)
        return 0
    program = [sys.executable, *sys.argv]
    if given.cgroup is not None:
        program = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(given.cgroup / "cgroup.procs"), *program]
    settings = {"SPARK_LOCAL_IP": HERE, "PYSPARK_PYTHON": sys.executable}
    with (
        tempfile.TemporaryDirectory(prefix="bussrv-cluster-", ignore_cleanup_errors=True) as root,
        standalone(Path(root), given.worker_memory) as master,
    ):
        done = subprocess.run([*program, "--master", master], env={**os.environ, **settings}, check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
