"""What the id of a session says."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by


def boot_of_session() -> Column:
    """The boot that opened the ``session``, with which its id begins; NULL if it does not."""
    return F.nullif(F.regexp_extract("session", r"^(.*)\.[^.]*$", 1), F.lit(""))
