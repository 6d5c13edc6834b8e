"""What journals are found to be by a Spark of which the workers are processes: ``python -m tests.audit.far_reading
MASTER PLACE JOURNAL...`` writes it to its standard output."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from bussrv.audit.spark import workers
from bussrv.audit.spark.session import spark_session
from tests.audit.ingested import Ingested, ingested

PROGRAM = ("-m", "tests.audit.far_reading")


def main(master: str, place: str, *journals: str) -> None:
    # However small the journals are.
    workers.SMALL = -1
    with spark_session(master, quick_start=True) as spark:
        read = ingested(spark, journals, Path(place), size=20_000)
    json.dump(read.tables, sys.stdout)


def said(text: str) -> Ingested:
    """What the program wrote."""
    return Ingested({name: Counter(rows) for name, rows in json.loads(text).items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
