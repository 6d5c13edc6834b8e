"""The chapters of the services, of links and of leases."""

from __future__ import annotations

from collections.abc import Iterator

from bussrv.audit.html import charts, tables, text
from bussrv.audit.html.axis import Axis
from bussrv.audit.html.markup import Html, element, html, name, plain
from bussrv.audit.html.model import Facts, Lease, Link, Orphan, Service
from bussrv.audit.html.presence import because, lanes
from bussrv.audit.html.tables import Column, listed

_LEASED = {"subscription": "wanted", "service": "provided"}


def services(facts: Facts) -> Iterator[Html]:
    """What was provided, and when."""
    totals = facts.service_totals
    if not totals.known:
        yield element("p", "Nobody provided a service, and nobody wanted one by name.", class_="nothing")
        return
    interrupted = (
        "None was ever interrupted."
        if not totals.interrupted
        else f"{text.many(totals.interrupted, 'was', 'were')} interrupted, {text.many(totals.outages, 'time')} in all."
    )
    yield element(
        "p", f"{text.many(totals.known, 'service')} known, {totals.provided:,} provided at the end. {interrupted}"
    )
    if facts.axis and facts.uptimes:
        yield from _uptimes(facts.axis, facts)
    yield element("h3", "Flapping")
    yield listed(
        "Services that were interrupted, most often first",
        _flapping(),
        facts.flapping,
        "No service that was provided ever went away.",
        "services",
    )
    yield element("h3", "Waited in vain")
    yield listed(
        "Subscriptions of a service that nobody provided as long as they lasted. Times are UTC.",
        _orphans(),
        facts.orphans,
        "Nobody waited for a service that never came.",
        "orphans",
    )
    yield element("h3", "Never wanted")
    yield listed(
        "Services that nobody ever asked for by name. Who takes all messages may use them nevertheless.",
        _unused(),
        facts.unused,
        "Every service was wanted by somebody.",
        "services",
    )


def _service(longest: int = 60) -> Column[Service]:
    def cell(each: Service) -> Html:
        return html(name(each.service, longest), element("small", name(each.server, 40)))

    return Column("Service", cell, lambda each: plain(each.service), "name", is_head=True)


def _uptimes(axis: Axis, facts: Facts) -> Iterator[Html]:
    columns: list[Column[Service]] = [
        _service(),
        Column("Time", lambda each: _lane(axis, each), None, "lanes"),
        Column("Provided", lambda each: text.share(each.availability), lambda each: each.availability, "number"),
        tables.number("Outages", lambda each: each.outages),
    ]
    yield element("h3", "When services were provided")
    caption = (
        "The services in most trouble, then those wanted most. Solid: provided. Hatched: not provided. A notch: not "
        f"all of those {text.width(axis.width)}. Blank: nobody had asked for it yet, or the journal does not cover it."
    )
    yield lanes(axis, caption, columns, facts.uptimes)


def _lane(axis: Axis, service: Service) -> Html:
    outages = text.many(service.outages, "outage")
    label = f"{plain(service.service, 60)} was provided {text.share(service.availability)} of the time, {outages}"
    return charts.lane(axis, service.uptime, label)


def _flapping() -> list[Column[Service]]:
    return [
        _service(),
        tables.number("Outages", lambda each: each.outages),
        Column("Provided", lambda each: text.share(each.availability), lambda each: each.availability, "number"),
        tables.length("Longest outage", lambda each: each.longest_outage_seconds),
        tables.length("Mean outage", lambda each: each.mttr_seconds),
        tables.length("Mean time between", lambda each: each.mtbf_seconds),
        tables.length("Wanted meanwhile", lambda each: each.unprovided_seconds),
        Column(
            "At the end", lambda each: "provided" if each.provided else "✕ not provided", lambda each: each.provided * 1
        ),
    ]


def _orphans() -> list[Column[Orphan]]:
    return [
        Column("Service", lambda each: name(each.service, 60), lambda each: plain(each.service), "name", is_head=True),
        Column("Who waited", lambda each: name(each.routing_id or each.session, 60), None, "name"),
        Column("Wire format", lambda each: name(each.protocol, 20), lambda each: plain(each.protocol)),
        Column("Server", lambda each: name(each.server, 40), lambda each: plain(each.server), "name"),
        tables.when("Since", lambda each: each.begin),
        tables.length("Waited", lambda each: each.waited_seconds),
        Column("At the end", lambda each: "gave up" if each.ended else "still waiting", lambda each: each.ended * 1),
    ]


def _unused() -> list[Column[Service]]:
    return [
        _service(),
        tables.length("Provided for", lambda each: each.provided_seconds),
        tables.number("Providers", lambda each: each.providers),
        Column(
            "At the end", lambda each: "provided" if each.provided else "not provided", lambda each: each.provided * 1
        ),
    ]


def links(facts: Facts) -> Iterator[Html]:
    """Links between servers, and leases that ran out."""
    columns: list[Column[Link]] = [
        Column("Server", lambda each: name(each.server, 40), lambda each: plain(each.server), "name", is_head=True),
        Column("Linked to", lambda each: name(each.neighbour, 40), lambda each: plain(each.neighbour), "name"),
        Column("Up", lambda each: text.share(each.availability), lambda each: each.availability, "number"),
        tables.number("Came up", lambda each: each.ups),
        tables.number("Lost", lambda each: each.downs),
        tables.length("Mean time between", lambda each: each.mtbf_seconds),
        Column("Last reason", lambda each: because(each.last_reason), lambda each: plain(each.last_reason)),
        Column("At the end", lambda each: "up" if each.up else "✕ down", lambda each: each.up * 1),
    ]
    yield listed(
        "Links between servers, those that were lost most often first",
        columns,
        facts.links,
        "No server was linked to another.",
        "links",
    )
    yield element("h3", "Leases that ran out")
    expired: list[Column[Lease]] = [
        Column(
            "Who", lambda each: _whose(each), lambda each: plain(each.routing_id or each.session), "name", is_head=True
        ),
        Column("Service", lambda each: name(each.service, 60), lambda each: plain(each.service), "name"),
        Column("Which it", lambda each: _LEASED.get(each.kind or "", "–"), lambda each: each.kind or ""),
        tables.when("Since", lambda each: each.added),
        tables.when("Last renewed", lambda each: each.renewed),
        tables.number("Renewals", lambda each: each.renewals),
        tables.when("Ran out", lambda each: each.expired),
    ]
    yield listed(
        "Inbus clients that were not heard of within their lease, the latest first. Times are UTC.",
        expired,
        facts.leases,
        "No lease ran out.",
        "leases",
    )


def _whose(lease: Lease) -> Html:
    below = html(name(lease.address, 60), ", ") if lease.address else ""
    return html(name(lease.routing_id or lease.session, 60), element("small", below, name(lease.server, 40)))
