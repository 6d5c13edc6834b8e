"""Facts that reports are made of: days of servers that never ran, from a seed."""

from __future__ import annotations

import math
import shlex
from random import Random

from bussrv.audit.report import activity, journals, trouble
from bussrv.audit.report.charts import DAY, HOUR, MINUTE, SECOND, axis_between
from bussrv.audit.report.facts import Facts
from bussrv.audit.report.questions import Listing
from bussrv.incidents.judging import Happened, Incident

BEGIN = 1_794_981_600 * SECOND
"""18 November 2026, 06:00 UTC."""

NASTY = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202egnp.exe\u202c",
    "x" * 10_000,
    "👩‍👩‍👧 familie 🎉",
    "\x00\x1b[31mred\x7f",
    "\ud800 half",
    "z\u0301\u0302\u0303\u0304\u0305\u0306\u0307algo",
    "",
    "   ",
    "&amp;&lt;",
    "שלום עולם",
    "</style></title></table>",
)

SERVICES = ("door", "doorbell", "light/hall", "heating", "camera/garage", "print", "weather", "tv", "music", "alarm")


def nothing() -> Facts:
    """No record in the period."""
    return Facts(version="0.1.0")


def clean() -> Facts:
    """Half an hour of a server on which all went well."""
    return _facts(Random(3), servers=("hall",), minutes=34, people=5, is_well=True)


def eventful(seed: int = 1) -> Facts:
    """Three days of two servers, with crashes and attacks."""
    return _facts(Random(seed), servers=("hall", "garage"), minutes=3 * 24 * 60, people=40, is_well=False)


def terrible() -> Facts:
    """Too many servers with names that are meant to harm, and findings without end."""
    random = Random(9)
    facts = _facts(random, servers=NASTY[:12], minutes=90 * 24 * 60, people=900, is_well=False, names=NASTY)
    kinds = [journals.KindCount(severity, kind, 10**at + at) for at, (severity, kind) in enumerate(_KINDS)]
    found = [_finding(random, severity, kind, NASTY) for severity, kind in _KINDS for _ in range(25)]
    return _replaced(
        facts,
        kinds=(*kinds, journals.KindCount("error", NASTY[0], 1)),
        findings=tuple(found),
        incidents=Listing(tuple(_incident(random, each, NASTY) for each in ("damage", "session") * 30), 10**6),
        happenings=_happened(random, NASTY),
        last_seals=tuple(_seal(name) for name in NASTY),
        witnessed=tuple(journals.CoveredRecords(each, 1, 9, NASTY[:3]) for each in NASTY),
        command="bussrv audit " + " ".join(map(shlex.quote, NASTY)),
    )


EVENTS = ("session.opened", "session.closed", *(f"strange.event-{number}" for number in range(20)))
"""More than a table shows at a time, and no more than a page has."""

_KINDS = (
    ("error", "broken-chain"),
    ("error", "seq-gap"),
    ("error", "session-never-closed"),
    ("error", "never-heard-of"),
    ("warning", "service-not-registered"),
    ("warning", "time-backwards"),
    ("notice", "torn-tail"),
)


HAPPENINGS = ("guessing", "address", "crash", "identity", "takeover", "outage", "witness", "link", "clock")


def _happened(random: Random, names: tuple[str, ...]) -> Happened:
    """One of each kind, and three more that are not told."""
    told = tuple(_incident(random, each, names) for each in HAPPENINGS)
    return Happened(told, {**dict.fromkeys(HAPPENINGS, 1), "crash": 4})


def _incident(random: Random, what: str, names: tuple[str, ...]) -> Incident:
    """With names in all its places."""
    seq = random.randrange(1, 90_000)
    is_found = what in {"damage", "session"}
    kinds = ("auth.failed", names[-1]) if what == "address" else tuple(kind for _, kind in _KINDS[:3])
    return Incident(
        what=what,
        server=random.choice(names),
        severity="error" if is_found else "event",
        number=seq % 90 + 1,
        others=seq % 7,
        kinds=kinds if is_found or what == "address" else (),
        seconds=seq / 10,
        begin=BEGIN,
        end=BEGIN + seq * SECOND,
        journal=random.choice(names) or "journal",
        segment=seq // 1000 * 1000 + 1,
        first_seq=None if what in {"identity", "takeover", "outage"} else seq,
        last_seq=seq + 9 if is_found else None,
        session=random.choice(names) if what == "session" else None,
        subject=random.choice(names) if what in {"identity", "takeover", "outage"} else None,
        address=random.choice(names) if what in {"session", "address", "takeover"} else None,
        actor=random.choice(names) if what in {"session", "takeover"} else None,
        claimed=random.choice(names) if what in {"session", "address", "guessing"} else None,
    )


def _seal(name: str) -> journals.LastSeal:
    return journals.LastSeal(
        journal=f"/srv/{name}", server=name, time=BEGIN, segment=9001, closed=True, digest="d0" * 32, entry=7,
        hash="3b" * 32, last_seq=9812, key="f5e0bcae7da7b8ced8b01f663251a739",
    )  # fmt: skip


def _replaced(facts: Facts, **changes: object) -> Facts:
    fields = {each: getattr(facts, each) for each in facts.__struct_fields__}
    return Facts(**{**fields, **changes})


def _finding(random: Random, severity: str, kind: str, names: tuple[str, ...]) -> journals.FindingRow:
    seq = random.randrange(1, 90_000)
    is_session = kind.startswith(("session", "service"))
    messages = {
        "broken-chain": f"the hash of the line before does not fit: line {seq % 900} or the one before it was changed",
        "seq-gap": f"records {seq} to {seq + 4} are missing",
        "torn-tail": "the last line is not finished: 113 bytes",
    }
    return journals.FindingRow(
        severity=severity,
        kind=kind,
        server=random.choice(names),
        boot="5f1c2ab94e07",
        segment=seq // 1000 * 1000 + 1 if kind != "torn-tail" else 88_001,
        first_seq=seq if kind != "torn-tail" else None,
        last_seq=seq + 4 if kind == "seq-gap" else seq if kind != "torn-tail" else None,
        session=f"5f1c2ab94e07.{seq % 400}" if is_session else None,
        service=random.choice(names) if kind.startswith("service") else None,
        file=f"/srv/bussrv-journal/{seq // 1000 * 1000 + 1:020}.jsonl.gz" if not is_session else None,
        line=seq % 900 if not is_session else None,
        message=messages.get(kind, f"session 5f1c2ab94e07.{seq % 400} of {random.choice(names)} contradicts itself"),
    )


def _facts(  # noqa: C901 - as many things as there are tables
    random: Random,
    *,
    servers: tuple[str, ...],
    minutes: int,
    people: int,
    is_well: bool,
    names: tuple[str, ...] = (),
) -> Facts:
    begin = BEGIN + 17 * SECOND
    end = begin + minutes * MINUTE
    axis = axis_between(begin, end)

    def who(choices: tuple[str, ...]) -> str:
        return random.choice(names or choices)

    def day(step: int) -> float:
        return 0.55 - 0.45 * math.cos((axis.starts(step) % DAY - 3 * HOUR) / DAY * 2 * math.pi)

    def protocol(name: str, scale: float) -> activity.Protocol:
        last = [max(0, round(scale * day(step) * (0.8 + 0.3 * random.random()))) for step in range(axis.steps)]
        most = [level + round(random.random() ** 3 * scale * 0.3) for level in last]
        if not is_well:
            last[axis.steps // 2] = 0
        number = sum(most) // 3 + 1
        return activity.Protocol(
            protocol=name, sessions=number, closed=number - last[-1], open=last[-1], away=len(name) % 3,
            persistent=int(name == "inbus"),
            objects_in=number * 40, objects_out=number * 90, bytes_in=number * 41_000, bytes_out=number * 93_000,
            most=tuple(most), last=tuple(last),
        )  # fmt: skip

    def lane(troubled: bool, first: int = begin) -> tuple[float | None, ...]:
        shares: list[float | None] = []
        for step in range(axis.steps):
            if not axis.seen(step, first, end):
                shares.append(None)
            elif troubled and random.random() < 0.05:
                shares.append(random.choice([0.0, 0.0, 0.4, 0.9995]))
            else:
                shares.append(1.0)
        if troubled:
            at = random.randrange(axis.steps)
            shares[at : at + 9] = [0.0] * len(shares[at : at + 9])
        return tuple(shares)

    def service(at: int) -> activity.ServiceUse:
        outages = 0 if is_well or at > 6 else round(40 * random.random() ** 2) + 1
        lasted = minutes * 60 * (1 if not outages else 0.97 + random.random() * 0.0299)
        return activity.ServiceUse(
            service=who((SERVICES[at % len(SERVICES)] + ("" if at < len(SERVICES) else f"/{at}"),)),
            server=servers[at % len(servers)], providers=1 + at % 3, registrations=outages + 1, provided_seconds=lasted,
            provided=at != 2, outages=outages, subscribers=at * 3 % 11, unprovided_seconds=outages * 31.5,
            availability=lasted / (minutes * 60), longest_outage_seconds=outages * 71.0 if outages else None,
            mtbf_seconds=lasted / outages if outages else None, mttr_seconds=44.2 if outages else None,
            uptime=lane(outages > 0),
        )  # fmt: skip

    wire = ("objects", "inbus", "spp", "business")
    protocols = [protocol(name, people / (1 + 2 * at)) for at, name in enumerate(wire[: 2 if is_well else 4])]
    services = [service(at) for at in range(4 if is_well else 18)]
    troubled = sorted((each for each in services if each.outages), key=lambda each: -each.outages)
    opened = [round(day(step) * people * random.random() / 3) for step in range(axis.steps)]
    if not is_well:
        opened[axis.steps // 3] = people * 2
    closed = [0, *opened[:-1]]
    crashes = 0 if is_well else 3
    records = sum(opened) * 9 + 40

    def server(name: str, at: int) -> journals.Server:
        first = begin + at * minutes * MINUTE // 9
        shares = list(lane(False, first))
        crashed = {} if is_well else {axis.steps // 2: 1, axis.steps // 2 + 2: 2}
        for step in crashed:
            shares[step] = 0.7
        return journals.Server(
            server=name, records=records // len(servers), first_seq=1, last_seq=records // len(servers),
            first_moment=first, last_moment=end, boots=1 + crashes, crashes=crashes, ran=tuple(shares),
            crashed_in=crashed,
        )  # fmt: skip

    def boot(at: int) -> journals.Boot:
        is_last = at == crashes * len(servers)
        since = begin + at * 3 * HOUR if at else begin
        return journals.Boot(
            server=servers[at % len(servers)], boot=f"{random.getrandbits(48):012x}", first_moment=since,
            last_moment=min(end, since + 3 * HOUR), records=730 + at, crashed=not is_last, ended=not is_last,
            down_seconds=random.choice([None, 3.2, 91.0]) if at else None, version="0.1.0",
        )  # fmt: skip

    def sealing(name: str, at: int) -> journals.Sealing:
        number = 3 if is_well else 40 + at
        return journals.Sealing(
            journal=f"/srv/{name[:30]}/bussrv-journal", server=name, segments=number, records=records // len(servers),
            bytes=records * 310, closed=number - 1, open=1 if is_well else 0, unsealed=0 if is_well else 1,
            verified=number if is_well else number - 2,
        )  # fmt: skip

    vouchings = [sealing(name, at) for at, name in enumerate(servers)]
    together = {
        each: sum(getattr(one, each) for one in vouchings)
        for each in ("segments", "records", "bytes", "closed", "open", "unsealed", "verified")
    }
    facts: dict[str, object] = {}
    if not is_well:
        found = [("error", "seq-gap", 2), ("error", "broken-chain", 1), ("warning", "service-not-registered", 3)]
        findings = [
            _finding(random, severity, kind, servers) for severity, kind, number in found for _ in range(number)
        ]
        refusal = {"first_moment": begin + HOUR, "last_moment": end - HOUR}
        facts = {
            "kinds": tuple(journals.KindCount(*each) for each in (*found, ("notice", "torn-tail", 1))),
            "findings": (*findings, _finding(random, "notice", "torn-tail", servers)),
            "unverified": Listing((
                journals.UnverifiedSegment(segment=9001, file="/srv/hall/bussrv-journal/00000000000000009001.jsonl.gz",
                              sealed="closed", server=who(servers), first_seq=9001, last_seq=9812),
                journals.UnverifiedSegment(segment=12001, file="/srv/hall/bussrv-journal/00000000000000012001.jsonl",
                              sealed="none", server=who(servers)),
            ), 4),
            "absences": Listing(tuple(
                activity.AbsenceRow(server=who(servers), session=f"5f1c2ab94e07.{at}", begin=begin + at * HOUR,
                    end=None if outcome == "away" else begin + (at + 1) * HOUR, kept_until=end + DAY, outcome=outcome,
                    away_seconds=None if outcome == "away" else 3600.0, reason=who(("connection-lost", "session-x")),
                    routing_id=who(("phone", "car")), actor=who(("anna", "ben")), back_actor=who(("eve", "carl")),
                    taken_over=at == 0)
                for at, outcome in enumerate(("resumed", "resumed", "closed", "away"))
            ), 4),
            "orphans": Listing(tuple(
                activity.Orphan(server=who(servers), session=f"5f1c2ab94e07.{at}", service=who(("scanner", "fax")),
                             protocol="objects", routing_id=who(("tv-3", "panel")), begin=begin + at * HOUR,
                             end=end, ended=at % 2 == 0, waited_seconds=90_000.0 / (at + 1))
                for at in range(4)), 31),
            "refusals": Listing((
                trouble.RefusalRow(event="auth.failed", reason="bad-credentials", number=940, suppressed=12_400,
                              **refusal),
                trouble.RefusalRow(event="limit.reached", reason="too-many-connects", limit="max-connects", number=311,
                              suppressed=2_000, **refusal),
                trouble.RefusalRow(event="service.refused", reason="reserved-name", number=3, suppressed=0, **refusal),
                trouble.RefusalRow(event="limit.reached", limit="outbound-limit", number=2, suppressed=0, **refusal),
            ), 4),
            "refused": Listing(tuple(
                trouble.RefusedAddress(address=who((f"192.0.2.{at}", "2001:db8::17")), number=900 // (at + 1),
                              suppressed=9000 // (at + 1), actors=at, **refusal)
                for at in range(7)), 7),
            "attacked": Listing(tuple(
                trouble.Attacked(claimed=who(("admin", "anna")), number=400 // (at + 1), suppressed=6000 // (at + 1),
                               sources=3 + at, addresses=tuple(who((f"192.0.2.{at}",)) for at in range(3)), **refusal)
                for at in range(4)), 4),
            "storms": Listing((
                trouble.Storm(server=who(servers), protocol="objects", address=who(("192.0.2.1",)),
                            begin=begin + HOUR, end=begin + HOUR + 7 * MINUTE, openings=611, peak=140),
            ), 1),
            "identities": Listing((
                trouble.ContestedId(server=who(servers), routing_id=who(("tv-3",)), sessions=5, overlaps=2,
                               first_moment=begin, last_moment=end,
                               addresses=tuple(who((f"192.0.2.{at}",)) for at in range(3)), actors=("anna", "ben"),
                               claimed=("carl",)),
            ), 1),
            "links": Listing((
                trouble.LinkUse(server=who(servers), neighbour=who(("garage",)), ups=9, downs=8, up_seconds=240_000.0,
                           up=True, availability=0.9731, mtbf_seconds=30_000.0, last_reason="connection-lost"),
            ), 1),
            "leases": Listing(tuple(
                trouble.Lease(server=who(servers), session=f"8f63b05d2a71.{at}", added=begin, expired=end - at * HOUR,
                            renewals=at * 30,
                            kind="service" if at % 2 else "subscription",
                            renewed=end - at * HOUR - MINUTE if at else None,
                            routing_id=who(("c0ffee", "90ab12cd34ef56ab78cd90ef")), address="192.168.7.21",
                            service=who(("doorbell", "light")))
                for at in range(5)), 5),
            "incidents": Listing(
                tuple(_incident(random, each, ("hall", "garage")) for each in ("damage", "session") * 3), 6
            ),
            "happenings": _happened(random, ("tv-3", "anna")),
            "last_seals": (_seal("hall"), _seal("garage")),
            "witnessed": (
                journals.CoveredRecords("hall", 1, 812, ("attic.example/w1", "barn.example/w2")),
                journals.CoveredRecords("hall", 813, 900, ()),
            ),
            "command": "bussrv audit /srv/hall /srv/garage --public-key hall.key.pub",
            "remote_sessions": 12,
            "keys": ("f5e0bcae7da7b8ced8b01f663251a739",),
            "trusted": "f5e0bcae7da7b8ced8b01f663251a739",
        }  # fmt: skip
    durations = (3, 20, 90, 300, 140, 60, 12, 0) if not is_well else (0, 1, 4, 9, 2, 0, 0, 0)
    talkers = tuple(
        activity.ClientTraffic(server=servers[0], sessions=1 + at, connected_seconds=3600.0 * (at + 1),
                     objects_in=9000 // (at + 1),
                     objects_out=30_000 // (at + 2), bytes_in=80_000_000 // (at + 1) ** 2,
                     bytes_out=31_000_000 * (3 + at % 3) // (at + 1), protocol=wire[at % 2],
                     routing_id=who(("camera-1", "nas", "tv-3", "panel", "anna-phone")) if at % 3 else None,
                     actor=who(("anna", "ben")) if at % 2 else None, claimed=None if at % 2 else "anna",
                     address=f"192.168.7.{20 + at}")
        for at in range(6 if is_well else 20 if not names else 60)
    )  # fmt: skip
    return Facts(
        version="0.1.0",
        audited="2026-11-22 00:20:00",
        axis=axis,
        records=records,
        boot_count=len(servers) * (1 + crashes),
        crashes=crashes * len(servers),
        servers=Listing(tuple(server(name, at) for at, name in enumerate(servers)), len(servers)),
        boots=Listing(tuple(boot(at) for at in range(crashes * len(servers) + 1)), 40),
        sealing=Listing(tuple(vouchings), len(vouchings)),
        all_seals=journals.Sealing(journal="", server=None, **together),
        protocols=Listing(tuple(protocols), len(protocols)),
        churn=activity.Churn(tuple(opened), tuple(closed)),
        durations=durations,
        closings=Listing(
            tuple(
                activity.Named(reason, 2000 // (at + 1) ** 2)
                for at, reason in enumerate(
                    ("client-closed", "connection-lost", "server-crashed", "slow-consumer", None)
                )
            ),
            5,
        ),
        service_totals=activity.ServiceTotals(
            len(services), len(services) - 1, len(troubled), sum(each.outages for each in troubled), 2
        ),
        uptimes=tuple(services),
        flapping=Listing(tuple(troubled), len(troubled)),
        unused=Listing(tuple(services[-2:]), 2),
        traffic=Listing(talkers, len(talkers) + 30),
        traffic_bytes=sum(each.bytes_in + each.bytes_out for each in talkers) * 2,
        events=Listing(
            tuple(trouble.Recorded(event, "ok", 4000 // (at + 1), at % 2 * 7) for at, event in enumerate(EVENTS)),
            len(EVENTS),
        ),
        **facts,
    )
