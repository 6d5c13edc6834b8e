"""One measurement, in a process of its own: ``python bench/audit_child.py TASK``, where ``TASK`` is a JSON object.

``what`` is who is measured, ``journals`` are the directories, ``work`` is a directory for this measurement,
``checkpoint`` (of the audit) where it goes on from, and ``result`` the file to write.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from audit_meter import Meter

AUDIT, EMBEDDED, PYTHON, DUCKDB, POLARS = "audit", "audit without Spark", "Python", "DuckDB", "Polars"
FROM_JSON, READ_JSON = "Spark from_json", "DuckDB read_json"


def main() -> None:
    task = json.loads(sys.argv[1])
    journals, work = [Path(each) for each in task["journals"]], Path(task["work"])
    meter = Meter()
    # Each imports what only it needs, and is not charged for what the others do.
    if task["what"] == AUDIT:
        import audit_spark

        checkpoint = task.get("checkpoint")
        answers = audit_spark.run(journals, work / "out", checkpoint and Path(checkpoint), meter)
    elif task["what"] == EMBEDDED:
        import audit_embedded

        answers = audit_embedded.run(journals, work / "out", meter)
    elif task["what"] in (FROM_JSON, READ_JSON):
        import audit_parquet

        parse = audit_parquet.with_spark if task["what"] == FROM_JSON else audit_parquet.with_duckdb
        answers = parse(journals, work, meter)
    elif task["what"] == DUCKDB:
        import audit_duckdb

        answers = audit_duckdb.run(journals, work, meter)
    elif task["what"] == POLARS:
        import audit_polars

        with meter.phase("JSON"):
            answers = audit_polars.run(journals)
    else:
        import audit_python

        with meter.phase("JSON"):
            answers = audit_python.run(journals)
    result = {"phases": [asdict(each) for each in meter.phases], "answers": answers}
    Path(task["result"]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
