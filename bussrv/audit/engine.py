"""Which engine an audit gets if nobody names one. Importing this imports nothing of Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec

from bussrv.audit.arguments import EMBEDDED, SPARK
from bussrv.audit.fold.stored import is_stored
from bussrv.audit.reading.sources import is_url
from bussrv.audit.spark.java import why_no_java


def choose(journals: Sequence[str], master: str | None, remote: str | None) -> tuple[str, str | None]:
    """The engine: Spark if it can run, or if something is asked for that only Spark can do.

    :param journals: directories of this machine, or URLs.
    :param master, remote: where Spark is to run, if that was said.
    :returns: the engine, and why it is that one; ``None``: the arguments say so.
    """
    if master is not None or remote is not None:
        return SPARK, None
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return SPARK, "spark-submit runs this"
    for each in journals:
        if is_url(each) and not is_stored(each):
            return SPARK, f"only Spark reads {each}"
    if find_spec("pyspark") is None:
        return EMBEDDED, "PySpark is not installed"
    why = why_no_java()
    return (SPARK, "PySpark and Java are installed") if why is None else (EMBEDDED, why)
