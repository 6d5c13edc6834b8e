"""The boots of servers, and the servers, once more."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from bussrv import events as ev
from bussrv.journal.record import Record

Rows = list[dict[str, Any]]


def extent(some: list[Record]) -> dict[str, Any]:
    return {
        "records": len(some),
        "first_seq": min(each.seq for each in some),
        "last_seq": max(each.seq for each in some),
        "first_moment": min(each.time for each in some),
        "last_moment": max(each.time for each in some),
    }


def boots(records: list[Record]) -> Rows:
    found = []
    for server in {each.server for each in records}:
        mine = [each for each in records if each.server == server]
        names = {each.boot for each in mine}
        each_boot = [boot(server, name, [each for each in mine if each.boot == name]) for name in names]
        each_boot.sort(key=lambda row: (row["first_seq"], row["first_moment"], row["boot"]))
        for before, row in pairwise([None, *each_boot]):
            if before is not None:
                row["down_seconds"] = max(0, row["first_moment"] - before["last_moment"]) / 1_000_000
            row["ended"] = row["stopped"] or row is not each_boot[-1]
            row["crashed"] = row["ended"] and not row["stopped"]
        found += each_boot
    return found


def boot(server: str, name: str, mine: list[Record]) -> dict[str, Any]:
    versions = [each.event.version for each in mine if isinstance(each.event, ev.ServerStarted)]
    return {
        "server": server,
        "boot": name,
        **extent(mine),
        "started": bool(versions),
        "stopped": any(isinstance(each.event, ev.ServerStopped) for each in mine),
        "ended": False,
        "crashed": False,
        "down_seconds": None,
        "version": max(versions, default=None),
    }


def servers(records: list[Record]) -> Rows:
    each_boot = boots(records)
    return [
        {
            "server": server,
            **extent([each for each in records if each.server == server]),
            "boots": sum(row["server"] == server for row in each_boot),
            "crashes": sum(row["server"] == server and row["crashed"] for row in each_boot),
        }
        for server in {each.server for each in records}
    ]
