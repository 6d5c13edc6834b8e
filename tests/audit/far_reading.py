"""What journals are found to be by a Spark of which the workers are processes: ``python -m tests.audit.far_reading
MASTER PLACE JOURNAL...`` writes it to its standard output."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from bussrv.audit.spark import store
from bussrv.audit.spark.session import spark_session
from tests.audit.ingested import Ingested, ingested

PROGRAM = ("-m", "tests.audit.far_reading")


def main(master: str, place: str, *journals: str) -> None:
    # All of it is dealt out to the workers, as large journals are.
    store.SMALL = -1
    with spark_session(master, quick_start=True) as spark:
        read = ingested(spark, journals, Path(place))
    json.dump([read.records, read.segments, read.findings], sys.stdout)


def said(text: str) -> Ingested:
    """What the program wrote."""
    return Ingested(*map(Counter, json.loads(text)))


if __name__ == "__main__":
    main(*sys.argv[1:])
