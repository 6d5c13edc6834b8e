"""An audit in which Spark does all it can do: ``python -m tests.audit.nameless JOURNAL... --out DIR``. Workers read the
journals, and Spark writes the tables, however small they are.
"""

from __future__ import annotations

import sys

from bussrv.audit import job
from bussrv.audit.spark import tables, workers

PROGRAM = ("-m", "tests.audit.nameless")


def main() -> int:
    workers.SMALL = -1
    tables.LARGEST = -1
    return job.main([*sys.argv[1:], "--engine", "spark"])


if __name__ == "__main__":
    sys.exit(main())
