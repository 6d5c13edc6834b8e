"""The page about the journal says what the code does."""

import json
import re
from pathlib import Path

import msgspec

from bussrv import events as ev
from bussrv.journal import writer
from bussrv.journal.record import decode, encode
from bussrv.journal.segment import segment_name

PAGE = Path(__file__).parents[2].joinpath("docs", "journal-format.md").read_text("utf-8")
COMMON = [field.name for field in msgspec.structs.fields(ev.Event)]
HEAD = ["v", "seq", "time", "mono", "server", "boot", "outcome", "event"]


def tables():
    """The rows of every table of the page, as lists of cells, by the first cell of its head."""
    found = {}
    for block in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.strip("|\n").split("|")] for line in block.splitlines())
        found.setdefault(head[0], []).append(rows)
    return found


def test_every_event_is_there_with_its_outcome_and_the_fields_of_its_own():
    (rows,) = tables()["event"]
    said = {name.strip("`"): (outcome.strip("`"), fields, when) for name, outcome, fields, when in rows}
    assert list(said) == list(ev.EVENTS_BY_NAME)
    for name, (outcome, fields, when) in said.items():
        cls = ev.EVENTS_BY_NAME[name]
        own = [field for field in msgspec.structs.fields(cls) if field.name not in COMMON]
        assert fields == " ".join(f"`{field.name}`" + "?" * (not field.required) for field in own)
        assert outcome == cls.OUTCOME
        assert when


def test_every_field_of_a_record_is_there_in_the_order_in_which_it_is_written():
    head, common = tables()["field"]
    assert [row[0].strip("`") for row in head] == HEAD
    assert [row[0].strip("`") for row in common] == COMMON
    types = {"integer": int, "string": str}
    every = {field.name: field.type for field in msgspec.structs.fields(ev.Event)}
    assert {row[0].strip("`"): types[row[1]] | None for row in common} == every


def test_the_example_is_a_record():
    (example,) = re.findall(r"```json\n(.*)\n```", PAGE)
    assert encode(decode(example.encode())).decode() == example + "\n"
    assert set(json.loads(example)) <= {*HEAD, *COMMON}


def test_the_interests_are_such():
    added = ev.EVENTS_BY_NAME["subscription.added"]
    examples = re.findall(r'`(\{"kind".*?\})`', PAGE)
    assert len(examples) == 2
    for example in examples:
        event = f'{{"event":"subscription.added","interest":{example}}}'
        assert f'"interest":{example}'.encode() in msgspec.json.encode(msgspec.json.decode(event, type=added))


def test_the_numbers_are_those_of_the_code():
    assert f"has reached {writer.SEGMENT_BYTES >> 20} MiB" in PAGE
    assert f"    {segment_name(813)}  " in PAGE
    assert (writer.SYNC_INTERVAL, writer.RETRY_INTERVAL) == (1, 1)
    assert [row[0] for row in tables()["mode"][0]] == ["`always`", "`interval`", "`off`"]
