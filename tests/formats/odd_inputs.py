"""The six formats for the kit, with the tables of odd inputs that each has."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bussrv.testing.conformance.adapter import Adapter, OddInput
from bussrv.testing.conformance.formats.known import OWN, adapter_of
from tests.formats.inbus import odd_datagrams
from tests.formats.objects.hostile import rows
from tests.formats.objects.hostile.cases import rows_for
from tests.formats.spp import odd_packets


def _of_members(vocabulary: rows.Vocabulary) -> list[OddInput]:
    return [
        OddInput(each.name, lambda row=each: row.build(vocabulary), each.member, holds=each.holds)  # type: ignore[misc]
        for each in rows_for(vocabulary)
    ]


TABLES: dict[str, Callable[[], Iterable[OddInput]]] = {
    "objects": lambda: _of_members(rows.OBJECTS),
    "business": lambda: _of_members(rows.BUSINESS),
    "spp": lambda: [OddInput(each.name, each.data, not each.guarded, each.guarded) for each in odd_packets.ROWS],
    "inbus": lambda: [OddInput(each.name, each.data) for each in odd_datagrams.ROWS],
}


def adapters() -> dict[str, Adapter]:
    """The adapters by the names of their formats."""
    found = {name: adapter_of(name) for name in OWN}
    for name, table in TABLES.items():
        found[name].odd_inputs = table  # type: ignore[method-assign]
    return found
