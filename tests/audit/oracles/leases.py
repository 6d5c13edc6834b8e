"""Leases that ran out, once more."""

from __future__ import annotations

from typing import Any

from bussrv import events as ev
from bussrv.journal.record import Record
from tests.audit.oracles.address import address_of

Rows = list[dict[str, Any]]

KINDS = {
    ev.SubscriptionAdded: ("subscription", "begin"),
    ev.SubscriptionRenewed: ("subscription", "renew"),
    ev.SubscriptionRemoved: ("subscription", "end"),
    ev.ServiceRegistered: ("service", "begin"),
    ev.ServiceUnregistered: ("service", "end"),
}


def leases(
    records: list[Record], given: list[Record] | None = None, since: int | None = None, until: int | None = None
) -> Rows:
    found = []
    held: dict[Any, dict[str, Any]] = {}
    known = [(True, each) for each in given or []] + [(False, each) for each in records]
    known.sort(key=lambda pair: (pair[1].seq, pair[1].time, pair[1].mono, str(pair[1].event.__struct_config__.tag)))
    for is_given, each in known:
        event = each.event
        if type(event) not in KINDS or not (is_given or event.protocol == "inbus"):
            continue
        kind, what = KINDS[type(event)]
        key = (each.server, event.session, kind, event.service)
        lease = held.setdefault(key, {"added": None, "renewed": None, "renewals": 0})
        if what == "begin":
            held[key] = {"added": each.time, "renewed": None, "renewals": 0}
        elif what == "renew":
            held[key] = {**lease, "renewed": each.time, "renewals": lease["renewals"] + 1}
        else:
            del held[key]
            is_within = (since is None or each.time >= since) and (until is None or each.time < until)
            if event.reason in ("lease-expired", "inbus-unreachable") and is_within and not is_given:
                found.append(
                    {
                        "server": each.server,
                        "session": event.session,
                        "kind": kind,
                        "routing_id": event.routing_id,
                        "address": address_of(event.peer),
                        "service": event.service,
                        **lease,
                        "expired": each.time,
                        "reason": event.reason,
                    }
                )
    return found
