"""What plugins, pages and examples import of bussrv: ``bussrv.plugin``, and what the tables here allow."""

import ast
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import pytest

from bussrv import plugin
from tests.docs.pages import ROOT, blocks

PLUGIN = "bussrv.plugin"

CLIENTS = ("bussrv.client", "bussrv.embedding", "bussrv.testing")
"""What programs of clients, programs with a server inside, and tests import: these packages have pages of their own."""

# By file or directory: what is imported there beside the contract. A place need not be there.
STRICT: Mapping[str, tuple[str, ...]] = {
    "docs/how-to/plugins.md": (),
    "docs/tutorial": CLIENTS,
    "examples": CLIENTS,
    # Tours with servers and clients of their own: `make demo`, `make demo-cluster` and `make demo-incident`.
    "examples/demo": (
        *CLIENTS,
        *("bussrv.cli", "bussrv.events.event_name", "bussrv.journal.reading.read_journal"),
        *("bussrv.wire.mqtt", "bussrv.wire.spp"),
    ),
    "examples/incident": (
        *CLIENTS,
        "bussrv.cli",
        "bussrv.policy.logins.users.hash_secret",
        "bussrv.wire.spp",
    ),
    "contrib": CLIENTS,
    # It shows that the contract is enough for a whole format. Its codec, and that of the WebSockets that it goes over.
    "bussrv/formats/mqtt": (
        *("bussrv.formats.mqtt", "bussrv.wire.mqtt"),
        *("bussrv.formats.websocket.socket", "bussrv.wire.frames"),
    ),
}

# The other formats and services: their own modules, and their codecs.
OWN: Mapping[str, tuple[str, ...]] = {
    "bussrv/formats/objects": ("bussrv.formats.objects", "bussrv.wire.objects", "bussrv.wire.head"),
    "bussrv/formats/inbus": ("bussrv.formats.inbus", "bussrv.wire.inbus"),
    "bussrv/formats/spp": ("bussrv.formats.spp", "bussrv.wire.spp"),
    "bussrv/formats/websocket": (
        *("bussrv.formats.websocket", "bussrv.formats.objects", "bussrv.wire.websocket"),
        *("bussrv.wire.frames", "bussrv.wire.script", "bussrv.wire.objects"),
    ),
    "bussrv/services": ("bussrv.services",),
}

FASTER = "speed: objects of members are read and routed without an object of Python for each"
LINKS = "links between servers are no part of the contract: only `objects` has them"
MEMBERS = "the object network has one vocabulary and one kind of interest, which a plugin takes no part in"
DATAGRAMS = "speed and ghosts of UDP: batches of datagrams, and what the system tells of lost ones"
ADDRESSES = "Inbus sessions are addresses: they are parsed, compared and printed"
LEASES = "the lease of a service ends it at once, and not by a change that the client asks for"
VIEWS = "`bus/registry` shows the registry and the journal as they are inside"
TOPICS = "presence and discovery are topics of the server itself, which no client and no plugin may have"
HOST = "it is what hosts the plugins of services, and no plugin"

# What these import otherwise, and why: by module, or by name.
PRIVATE: Mapping[str, str] = {
    "bussrv.events": "the records that a format writes into the journal: their page is the journal format",
    "bussrv.addresses": ADDRESSES,
    "bussrv.counts": "limited lines of log and ledgers of addresses, which clients without connections need",
    "bussrv.service_patterns": TOPICS,
    "bussrv.values.PRESENCE_PREFIX": TOPICS,
    "bussrv.values.RESERVED_PREFIX": TOPICS,
    "bussrv.bus.interfaces.ITopicSource": TOPICS,
    "bussrv.wire.mqtt": TOPICS,
    "bussrv.patterns": "origins of web pages are patterns of any text",
    "bussrv.turns": "slices for long work of the server itself; authors have send_in_slices",
    "bussrv.version": "`bus/statistics` says it",
    "bussrv.errors.TOO_MANY_LOGINS": "a code of REASONS that Python compares",
    "bussrv.values.Interest": MEMBERS,
    "bussrv.values.ModeInterest": MEMBERS,
    "bussrv.values.MAX_ROUTING_ID": MEMBERS,
    "bussrv.values.excerpt": "the journaled form of an invalid name",
    "bussrv.values.shown": LINKS,
    "bussrv.bus.copied_limits": DATAGRAMS,
    "bussrv.bus.flush_schedule": DATAGRAMS,
    "bussrv.bus.groups.fanout.OBJECT_FRAMES": MEMBERS,
    "bussrv.bus.interest": MEMBERS,
    "bussrv.bus.interfaces.IReloadable": LINKS,
    "bussrv.bus.links": LINKS,
    "bussrv.bus.routing": FASTER,
    "bussrv.bus.send_rights": MEMBERS,
    "bussrv.bus.services.hosted": HOST,
    "bussrv.bus.services.hosted_subscribers.seen_with": TOPICS,
    "bussrv.bus.sessions.ending": LEASES,
    "bussrv.bus.sessions.withdrawal": LEASES,
    "bussrv.journal.interfaces": HOST,
    "bussrv.journal.pseudonyms": "a subscriber whose address the journal hides cannot be rebuilt from it",
    "bussrv.journal.record": VIEWS,
    "bussrv.memory.bundle.KeptBundle": "offers are made once for all subscribers, and are no bytes of any one of them",
    "bussrv.net.draining": LINKS,
    "bussrv.net.session.input": FASTER,
    "bussrv.net.session.input_states": FASTER,
    "bussrv.net.tls": LINKS,
    "bussrv.net.transport.endpoint_faults": LINKS,
    "bussrv.net.transport.endpoint_parts": LINKS,
    "bussrv.net.transport.icmp": DATAGRAMS,
    "bussrv.net.transport.udp_batches": DATAGRAMS,
    "bussrv.policy.logins.credentials.Proof": "users by network or by link, without credentials",
    "bussrv.policy.permissions.permissions.content": MEMBERS,
    "bussrv.registry.changes.rules": LEASES,
    "bussrv.registry.state.live_snapshot": VIEWS,
    "bussrv.registry.state.naming.OWN_PROTOCOL": HOST,
}


def within(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in places)


def imported(source: str) -> Iterator[str]:
    """What a module imports of bussrv, wherever: each name after that of the module that it is taken from."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if within(each.name, ("bussrv",)))
        elif isinstance(node, ast.ImportFrom) and within(str(node.module), ("bussrv",)):
            yield from (f"{node.module}.{each.name}" for each in node.names)


def sources(place: str) -> Iterator[tuple[str, str]]:
    """Every program of a file or a directory that has no row of its own: where it is, and its text."""
    root = ROOT / place
    apart = [ROOT / each for each in STRICT if each.startswith(f"{place}/")]
    for path in [root] if root.is_file() else sorted(root.rglob("*")):
        file = str(path.relative_to(ROOT))
        if any(path.is_relative_to(each) for each in apart):
            continue
        if path.suffix == ".py":
            yield file, path.read_text("utf-8")
        elif path.suffix == ".md":
            yield from ((file, each) for each in blocks(file, "python"))


def strangers(source: str, allowed: tuple[str, ...]) -> list[str]:
    """What a program imports of bussrv that is neither the contract nor allowed."""
    return [each for each in imported(source) if not within(each, (PLUGIN, *allowed))]


def is_offered(name: str) -> bool:
    """Whether the contract has the very thing that this name stands for."""
    module, _, last = name.rpartition(".")
    return last in plugin.__all__ and getattr(import_module(module), last, None) is getattr(plugin, last)


@pytest.mark.parametrize("place", STRICT)
def test_authors_import_the_contract_and_nothing_else(place: str) -> None:
    found = {f"{file}: {each}" for file, source in sources(place) for each in strangers(source, STRICT[place])}
    assert found == set()


def test_the_programs_of_the_page_are_looked_at() -> None:
    assert len([*sources("docs/how-to/plugins.md")]) >= 4
    assert all(PLUGIN in source for _, source in sources("docs/how-to/plugins.md"))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from bussrv.plugin import StreamProtocol", []),
        ("from bussrv.errors import Refused", ["bussrv.errors.Refused"]),
        ("def f():\n    import bussrv.bus.bus", ["bussrv.bus.bus"]),
        ("from bussrv import events as ev", ["bussrv.events"]),
        ("from bussrv.plugins import x", ["bussrv.plugins.x"]),
        ("from bussrvlike import x\nfrom bussrv.client.aio import connect", []),
    ],
)
def test_an_import_of_something_else_is_found(source: str, found: list[str]) -> None:
    assert strangers(source, CLIENTS) == found


def test_other_formats_import_from_the_contract_what_it_has() -> None:
    found = {
        f"{file}: {each}" for place in OWN for file, source in sources(place) for each in strangers(source, OWN[place])
    }
    assert {each for each in found if is_offered(each.partition(": ")[2])} == set()


def test_what_they_import_otherwise_has_a_reason() -> None:
    found = {each for place in OWN for _, source in sources(place) for each in strangers(source, OWN[place])}
    assert {each for each in found if not within(each, tuple(PRIVATE))} == set()
    assert {each for each in PRIVATE if not any(within(name, (each,)) for name in found)} == set()


def test_a_name_of_the_contract_is_found_elsewhere() -> None:
    assert is_offered("bussrv.errors.Refused")
    assert not is_offered("bussrv.errors.BadValue")


def test_the_places_are_there() -> None:
    assert [place for place in OWN if not (ROOT / place).is_dir()] == []
    assert Path(ROOT / "docs/how-to/plugins.md").is_file()
