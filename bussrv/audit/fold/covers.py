"""Covers: the longest intervals without a gap in which a service was provided, or wanted, by anybody.

A stripe has some thousand spans of a service, and few covers. What only asks *when* it was provided reads these. Those
of several stripes are merged once more.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bussrv.audit.fold.lines import Numbers

_GROUP = ("server", "service", "is_provided")


def covers(spans: pa.Table) -> pa.Table:
    """The intervals that spans cover, by server, service and whether it is provided. Those that touch are one.

    :param spans: ``_GROUP``, ``begin_at`` and ``end_at``, which is null for a span that has not ended. One that ends
        before it begins is empty.
    :returns: the same columns.
    """
    begins = _numbers(spans, "begin_at")
    is_open = spans.column("end_at").is_null().to_numpy()
    ends = np.maximum(begins, _numbers(spans, "end_at"))
    groups = _groups(spans)
    order = np.lexsort((begins, groups))
    begins, groups, is_open = begins[order], groups[order], is_open[order]
    # To take the maximum of each group in one go, ends are replaced by their ranks. Later groups have higher ones.
    values, ranks = np.unique(np.where(is_open, np.iinfo(np.int64).max, ends[order]), return_inverse=True)
    latest = np.maximum.accumulate(groups * len(values) + ranks) - groups * len(values)
    is_first = np.diff(groups, prepend=-1) > 0
    is_first[1:] |= begins[1:] > values[latest[:-1]]
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], order.size)[: firsts.size] - 1
    own = spans.select(_GROUP).take(pa.array(order[firsts]))
    ends_at = values[latest[lasts]]
    return own.append_column("begin_at", pa.array(begins[firsts], pa.int64())).append_column(
        "end_at", pa.array(ends_at, pa.int64(), mask=ends_at == np.iinfo(np.int64).max)
    )


def _numbers(spans: pa.Table, name: str) -> Numbers:
    found: Numbers = pc.fill_null(spans.column(name), 0).to_numpy()
    return found


def _groups(spans: pa.Table) -> Numbers:
    """A number for each group, the same for all its spans."""
    found = np.zeros(len(spans), dtype=np.int64)
    for name in _GROUP:
        codes = spans.column(name).combine_chunks().dictionary_encode()
        found = found * max(len(codes.dictionary), 1) + codes.indices.to_numpy(zero_copy_only=False)
    return found
