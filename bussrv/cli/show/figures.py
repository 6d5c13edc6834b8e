"""Figures of a running server, and the growth of its totals in a second."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

TOTALS = ("objects_in", "objects_out", "bytes_in", "bytes_out")


class ServerFigures(NamedTuple):
    """The figures at a moment.

    :ivar figures: the figures as the server sent them.
    :ivar rates: the growth of each of :data:`TOTALS` in a second, since the look before; ``None``: there was none.
    """

    figures: Mapping[str, Any]
    rates: Mapping[str, float] | None

    def as_json(self) -> dict[str, Any]:
        """The object of JSON for programs."""
        return {**self.figures, "rates": self.rates}

    def __str__(self) -> str:
        figures = self.figures
        parts = [str(figures.get("time", ""))[:19] + "Z"]
        parts.append(f"sessions={sum((figures.get('sessions') or {}).values())}")
        if figures.get("away"):
            parts.append(f"away={sum(figures['away'].values())}")
        parts += [f"{name}={figures.get(name, 0)}" for name in ("services", "subscriptions", "links")]
        if self.rates is not None:
            parts += [f"{name}/s={rate:.0f}" for name, rate in self.rates.items()]
        for name in ("delivery_seconds", "journal_sync_seconds"):
            parts.append(f"{name.removesuffix('_seconds')}_p99={duration((figures.get(name) or {}).get('p99'))}")
        parts.append(f"waiting_bytes={figures.get('waiting_bytes', 0)}")
        if figures.get("degraded"):
            parts.append(f"degraded={','.join(map(str, figures['degraded']))}")
        return " ".join(parts)


def look(figures: Mapping[str, Any], before: ServerFigures | None) -> ServerFigures:
    """The figures with their rates since the look before."""
    if before is None:
        return ServerFigures(figures, None)
    seconds = _seconds(figures) - _seconds(before.figures)
    if seconds <= 0:
        return ServerFigures(figures, before.rates)
    # A restarted server counts from 0 again.
    rates = {name: max(0, figures.get(name, 0) - before.figures.get(name, 0)) / seconds for name in TOTALS}
    return ServerFigures(figures, rates)


def _seconds(figures: Mapping[str, Any]) -> float:
    try:
        return datetime.fromisoformat(str(figures.get("time", "")).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


def duration(seconds: object) -> str:
    """A time in a unit that fits."""
    if not isinstance(seconds, (int, float)):
        return "-"
    for least, factor, unit in ((1.0, 1, "s"), (1e-3, 1e3, "ms"), (0.0, 1e6, "µs")):
        if seconds >= least:
            return f"{seconds * factor:.3g} {unit}"
    return "-"


def amount(count: float, unit: str = "") -> str:
    """A number with a prefix: 12.3 k."""
    for least, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= least:
            return f"{count / least:.3g} {prefix}{unit}"
    return f"{count:.0f} {unit}".rstrip()
