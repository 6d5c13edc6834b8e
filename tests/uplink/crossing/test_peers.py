"""Entries of a directory fit into the messages that the engine takes."""

from bussrv.uplink.crossing.peers import MOST_IN_ENTRY, Entries, read_entry
from bussrv.wire.objects import encode_json


def test_entries_are_no_longer_than_the_engine_takes():
    events = [{"event": "services/register", "name": f"{number:04}".ljust(200, "x")} for number in range(1000)]
    too_long = {"event": "x" * 5000}
    for most in (4096, 1 << 20):
        entries = Entries("b")
        encoded = list(map(encode_json, [*events[:500], *([too_long] if most == 4096 else []), *events[500:]]))
        written = [*entries.snapshot(encoded, most), *entries.changes(encoded, most)]
        assert max(map(len, written)) <= min(most, MOST_IN_ENTRY + 1000)
        read = list(map(read_entry, written))
        assert [each.n for each in read] == list(range(1, len(read) + 1))
        assert [fields for each in read for fields in each.events] == 2 * events
