"""Times as people name them: ``yesterday``, ``-2h``, ``14:02``, with or without a time zone."""

from __future__ import annotations

import os
import re
from datetime import datetime, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from bussrv.journal.record import format_time

UTC = timezone.utc
LOCAL = "local"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_AGO = re.compile(r"-(?:[0-9]{1,9}(?:s|min|m|h|d|w))+")
_PART = re.compile(r"([0-9]+)(s|min|m|h|d|w)")
_DAYS = {"today": 0, "yesterday": 1}
_DATE = r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
_CLOCK = r"([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)"
_TIME = re.compile(rf"(?:{_DATE}(?:[T ](?=[0-9])|\Z))?(?:{_CLOCK}(Z|[+-][0-9]{{2}}:[0-9]{{2}})?)?")
_LOCAL_ZONE = Path("/etc/localtime")


def parse_when(text: str, now: int, zone: tzinfo = UTC) -> int:
    """The time that a person names, UTC microseconds since 1970.

    - ``now``, and ``-90s``, ``-30min``, ``-2h``, ``-7d``, ``-1w`` or ``-1h30m``: so long before it,
    - ``today`` and ``yesterday``: the beginning of that day,
    - ``14:02`` or ``14:02:03``: today,
    - ``2026-11-21``: its beginning, and ``2026-11-21T14:02:03.5``, also with a blank in place of ``T``,
    - the last two with ``Z`` or an offset such as ``+01:00`` in the place of ``zone``.

    :param now: UTC microseconds since 1970.
    :param zone: of days, and of times without a zone. Of an hour that comes twice, the first one is meant.
    :raises ValueError: if it is none of these.
    """
    try:
        found = _when(text, now, zone)
        _at(found, UTC)
    except (ValueError, OverflowError):
        said = f"{text!r} is not a time such as 2026-11-21T14:02:03Z, 14:02, yesterday or -2h"
        raise ValueError(said) from None
    return found


def _when(text: str, now: int, zone: tzinfo) -> int:
    if text == "now":
        return now
    if _AGO.fullmatch(text):
        return now - sum(int(count) * _SECONDS[unit] for count, unit in _PART.findall(text)) * 1_000_000
    today = _at(now, zone).date()
    if text in _DAYS:
        return _micros(datetime.combine(today - timedelta(days=_DAYS[text]), datetime.min.time(), zone))
    found = _TIME.fullmatch(text)
    if found is None or not text:
        raise ValueError
    date, clock, offset = found.groups()
    day = today if date is None else datetime.fromisoformat(date).date()
    seconds, _, fraction = (clock or "00:00").partition(".")
    time = datetime.fromisoformat(f"2000-01-01T{seconds}").time()
    moment = datetime.combine(day, time, zone if offset is None else _offset(offset))
    return _micros(moment) + int(f"{fraction:0<6}")


def _offset(text: str) -> tzinfo:
    return UTC if text == "Z" else datetime.fromisoformat(f"2000-01-01T00:00:00{text}").tzinfo or UTC


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _at(micros: int, zone: tzinfo) -> datetime:
    return (_EPOCH + timedelta(microseconds=micros)).astimezone(zone)


def parse_zone(text: str) -> tzinfo:
    """The time zone of a name: ``UTC``, ``local`` (that of this machine), or such as ``Europe/Berlin``.

    :raises ValueError: if there is none of that name on this machine.
    """
    if text == "UTC":
        return UTC
    try:
        if text == LOCAL and "TZ" not in os.environ:
            with _LOCAL_ZONE.open("rb") as file:
                return ZoneInfo.from_file(file)
        return ZoneInfo(os.environ["TZ"] if text == LOCAL else text)
    except (OSError, ValueError, LookupError) as error:
        hint = "; a name is such as Europe/Berlin, and needs the package tzdata of the system or of PyPI"
        raise ValueError(f"this machine knows no time zone {text!r}{hint}") from error


def time_in(micros: int, zone: tzinfo) -> str:
    """UTC microseconds since 1970 as ``2026-11-21T15:02:03.123456+01:00``; with ``Z`` in UTC."""
    if zone is UTC:
        return format_time(micros)
    try:
        return _at(micros, zone).isoformat(timespec="microseconds")
    except OverflowError:
        return format_time(micros)
