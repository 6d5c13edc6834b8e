"""Numbers and lengths of time in words."""

from __future__ import annotations

NOTHING = "–"
SPACE = "\N{NO-BREAK SPACE}"

_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def many(value: int, what: str, plural: str | None = None) -> str:
    """``1 session``, ``1,234 sessions``."""
    return f"{value:,} {what}" if value == 1 else f"{value:,} {plural or what + 's'}"


def length(seconds: float | None) -> str:
    """A length of time, in its two largest units: ``3 d 4 h``, ``12 s``, ``350 ms``."""
    if seconds is None:
        return NOTHING
    if seconds <= 0:
        return f"0{SPACE}s"
    if seconds < 0.0995:
        return f"{seconds * 1000:.2g}{SPACE}ms" if seconds >= 0.001 else f"<{SPACE}1{SPACE}ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}{SPACE}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + f"{SPACE}s"
    return _two_units(round(seconds))


def _two_units(seconds: int) -> str:
    at = next(at for at, (_, unit) in enumerate(_UNITS) if seconds >= unit)
    parts: list[str] = []
    for unit_name, unit in _UNITS[at : at + 2]:
        amount, seconds = divmod(seconds, unit)
        if amount or not parts:
            parts.append(f"{amount:,}{SPACE}{unit_name}")
    return SPACE.join(parts)
