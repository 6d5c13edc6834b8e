"""The page about the journal says what the code does."""

import re
from pathlib import Path
from typing import get_args

import msgspec

from bussrv import events as ev
from bussrv.journal import batch, header, keys, manifest, record, upkeep
from bussrv.journal.closed import compress
from bussrv.journal.files import PRIVATE, SEALED
from bussrv.journal.segment import COMPRESSED_SUFFIX, NEW_SUFFIX, SUFFIX, TORN_SUFFIX, segment_name
from bussrv.registry.state import fold

PAGE = Path(__file__).parents[2].joinpath("docs", "reference", "journal-format", "index.md").read_text("utf-8")
COMMON = [field.name for field in msgspec.structs.fields(ev.Event)]
HEAD = ["v", "prev", "seq", "time", "mono", "server", "boot", "outcome", "event"]
TYPES = {int: "integer", str: "string", bool: "boolean"}


def tables():
    """The rows of every table of the page, as lists of cells, by the first cell of its head."""
    found = {}
    for block in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.strip("|\n").split("|")] for line in block.splitlines())
        found.setdefault(head[0], []).append(rows)
    return found


def flat(text):
    return re.sub(r"\s+", " ", text)


def test_every_event_is_there_with_its_outcome_and_own_fields():
    (rows,) = tables()["event"]
    said = {name.strip("`"): (outcome.strip("`"), fields, when) for name, outcome, fields, when in rows}
    assert list(said) == list(ev.EVENTS_BY_NAME)
    for name, (outcome, fields, when) in said.items():
        cls = ev.EVENTS_BY_NAME[name]
        own = [field for field in msgspec.structs.fields(cls) if field.name not in COMMON]
        assert fields == " ".join(f"`{field.name}`" + "?" * (not field.required) for field in own)
        assert outcome == cls.OUTCOME
        assert when


def test_every_field_of_a_record_is_there_in_order():
    head, common = tables()["field"]
    assert [row[0].strip("`") for row in head] == HEAD
    assert [row[0].strip("`") for row in common] == COMMON
    types = {"integer": int, "string": str}
    every = {field.name: field.type for field in msgspec.structs.fields(ev.Event)}
    assert {row[0].strip("`"): types[row[1]] | None for row in common} == every


def test_every_field_of_headers_and_snapshots_is_there_in_order():
    for name, line in (("header", header._HeaderLine), ("snapshot", header._PartLine)):
        (rows,) = tables()[name]
        fields = msgspec.structs.fields(line)
        assert [row[0] for row in rows] == [f"`{field.name}`" + "?" * (not field.required) for field in fields]
        types = [
            TYPES.get(get_args(field.type)[0] if get_args(field.type) else field.type, "object") for field in fields
        ]
        assert [row[1] for row in rows] == types


def test_every_field_of_every_kind_of_entry_is_there():
    (rows,) = tables()["kind"]
    said, kind = {}, ""
    for first, fields, *_ in rows:
        kind = first.strip("`") or kind
        said.setdefault(kind, []).extend(re.findall(r"`(\w+)`", fields))
    (common,) = tables()["manifest"]
    head = re.findall(r"`(\w+)`", " ".join(row[0] for row in common))
    assert head == ["v", "prev", "entry", "kind", "time", "server"]
    for cls in manifest.Body.__args__:
        config = cls.__struct_config__
        own = [field.name for field in msgspec.structs.fields(cls) if field.name not in head]
        assert said.pop(config.tag) == own
    assert said == {}
    assert f"signature is of `{keys.CONTEXT.decode().strip()}`, a newline," in PAGE


def test_the_interests_are_such():
    added = ev.EVENTS_BY_NAME["subscription.added"]
    examples = re.findall(r'`(\{"kind".*?\})`', PAGE)
    assert len(examples) == 2
    for example in examples:
        event = f'{{"event":"subscription.added","interest":{example}}}'
        assert f'"interest":{example}'.encode() in msgspec.json.encode(msgspec.json.decode(event, type=added))


def test_the_names_are_those_of_the_code(tmp_path):
    for suffix in (SUFFIX, COMPRESSED_SUFFIX, SUFFIX + TORN_SUFFIX, SUFFIX + NEW_SUFFIX):
        assert re.search(rf"^    \d{{20}}{re.escape(suffix)}  ", PAGE, re.MULTILINE), suffix
    assert f"    {segment_name(813)}  " in PAGE
    assert f"`v` | integer | the version of the schema, {record.SCHEMA_VERSION} |" in PAGE
    assert f"`bussrv journal manifest {manifest.VERSION}`" in PAGE
    assert f"`v` | integer | the version of the manifest's schema, {manifest.VERSION} |" in PAGE
    segment = tmp_path / segment_name(1)
    segment.write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert compress(segment, empty).name == segment_name(1).replace(SUFFIX, COMPRESSED_SUFFIX)


def test_the_numbers_are_those_of_the_code():
    rotation, policy = batch.Rotation(), upkeep.UpkeepPolicy()
    assert f"has reached {rotation.bytes >> 20} MiB" in flat(PAGE)
    assert (rotation.age, policy.seal_interval, batch.SYNC_INTERVAL, batch.PULSE) == (3600, 60, 1, 1)
    assert f"about {fold.STATE_BYTES >> 10} KiB" in PAGE
    assert f"read-only (mode {SEALED:04o})" in PAGE
    assert f"made with mode {PRIVATE:04o}" in PAGE
    assert [row[0] for row in tables()["mode"][0]] == ["`always`", "`interval`", "`off`"]
