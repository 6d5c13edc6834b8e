"""Numbers, lengths of time and moments, formatted for people."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NOTHING = "–"
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_SPACE = "\N{NO-BREAK SPACE}"
_SCALES = "kMGTPE"

SECOND = 1_000_000


def number(value: int | None) -> str:
    """``1,234,567``."""
    return _NOTHING if value is None else f"{value:,}"


def many(value: int, what: str, plural: str | None = None) -> str:
    """``1 session``, ``1,234 sessions``."""
    return f"{value:,} {what}" if value == 1 else f"{value:,} {plural or what + 's'}"


def size(value: int | None) -> str:
    """Bytes: ``999 B``, ``1.2 GB``. Units are powers of 1,000."""
    if value is None:
        return _NOTHING
    if abs(value) < 1000:
        return f"{value}{_SPACE}B"
    scaled = float(value)
    for scale in _SCALES:
        scaled /= 1000
        if abs(scaled) < 999.5 or scale == _SCALES[-1]:
            break
    digits = 0 if abs(scaled) >= 99.95 else 1
    return f"{scaled:,.{digits}f}{_SPACE}{scale}B"


def length(seconds: float | None) -> str:
    """A length of time, in its two largest units: ``3 d 4 h``, ``12 s``, ``350 ms``."""
    if seconds is None:
        return _NOTHING
    if seconds <= 0:
        return f"0{_SPACE}s"
    if seconds < 0.0995:
        return f"{seconds * 1000:.2g}{_SPACE}ms" if seconds >= 0.001 else f"<{_SPACE}1{_SPACE}ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}{_SPACE}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + f"{_SPACE}s"
    return _two_units(round(seconds))


def _two_units(seconds: int) -> str:
    at = next(at for at, (_, unit) in enumerate(_UNITS) if seconds >= unit)
    parts: list[str] = []
    for unit_name, unit in _UNITS[at : at + 2]:
        amount, seconds = divmod(seconds, unit)
        if amount or not parts:
            parts.append(f"{amount:,}{_SPACE}{unit_name}")
    return _SPACE.join(parts)


def width(micros: int) -> str:
    """The length of a step or the distance of ticks, which is a round number: ``10 min``, ``20 µs``."""
    return f"{micros}{_SPACE}µs" if micros < 1000 else length(micros / SECOND)


def share(value: float | None) -> str:
    """``99.95 %``. Never rounded to 100 % or 0 %."""
    if value is None:
        return _NOTHING
    percent = value * 100
    if percent >= 100:
        return f"100{_SPACE}%"
    if percent <= 0:
        return f"0{_SPACE}%"
    if percent < 0.1:
        return f"<{_SPACE}0.1{_SPACE}%"
    if percent >= 90:
        return f"{int(percent * 100) / 100:.2f}{_SPACE}%"
    return f"{percent:.1f}{_SPACE}%"


def moment(micros: int | None) -> str:
    """``2026-11-21 14:02:03``, UTC."""
    return _NOTHING if micros is None else f"{_datetime(micros):%Y-%m-%d %H:%M:%S}"


def machine_moment(micros: int) -> str:
    """For programs: ``2026-11-21T14:02:03.123456Z``."""
    return f"{_datetime(micros):%Y-%m-%dT%H:%M:%S.%fZ}"


def day(micros: int) -> str:
    """``21 Nov 2026``."""
    return f"{_datetime(micros):%-d %b %Y}"


def clock(micros: int, step: int) -> str:
    """The time of day, as precise as steps of that length need."""
    when = _datetime(micros)
    if step >= 60 * SECOND:
        return f"{when:%H:%M}"
    if step >= SECOND:
        return f"{when:%H:%M:%S}"
    return f"{when:%H:%M:%S.%f}".rstrip("0")


def _datetime(micros: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return datetime.max.replace(tzinfo=timezone.utc) if micros > 0 else datetime.min.replace(tzinfo=timezone.utc)
