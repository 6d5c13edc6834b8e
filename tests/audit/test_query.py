"""SQL on the tables of a finished audit, and the tables as CSV: the answers, and what a query cannot do."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bussrv import events as ev
from bussrv.audit.fold import tasks
from bussrv.audit.job import audit
from bussrv.audit.output import PUBLISHED
from bussrv.audit.query import answered, write_csv
from bussrv.audit.reading import stripes
from bussrv.audit.report.page import TEMPLATES
from bussrv.cli.main import main
from tests.audit.conftest import Whole, without_patience, without_report
from tests.audit.journals import Writer, day, write_journal
from tests.audit.test_docs import TEXT
from tests.size import FULL, sample
from tests.tables import check_each

pytestmark = pytest.mark.dear

FORMULA = '=HYPERLINK("http://evil.example","2")'
TEXTS = {
    FORMULA: f"'{FORMULA}",
    "+1": "'+1",
    "-1": "'-1",
    "@SUM(A1)": "'@SUM(A1)",
    "\t=1": "'\ufffd=1",
    "  =1": "'  =1",
    "\uff1d1": "'\uff1d1",
    "two\nlines\r\n=1": "two\ufffdlines\ufffd\ufffd=1",
    'with "quotes", and; more': 'with "quotes", and; more',
    "\u202egnp.exe": "\ufffdgnp.exe",
    "nul\0": "nul\ufffd",
    "1=1": "1=1",
    "x" * 10_000: "x" * 10_000,
}
"""Names that clients claimed, and what stands in CSV."""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of an audit."""
    root = tmp_path_factory.mktemp("query")
    writer = Writer()
    writer.start()
    for number, name in enumerate(TEXTS):
        writer.open(writer.id(number), claimed=name)
        writer.write(ev.AuthFailed(claimed=name, protocol="spp", reason="bad-credentials", peer=f"192.0.2.{number}:1"))
    with without_patience():
        audit(None, [write_journal(root / "journal", writer.records)], root / "out", csv=True)
    return root / "out"


@pytest.fixture
def ask(out: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., tuple[int, str, str]]:
    """The exit status, and what the command prints."""

    def ask(query: str, *options: str) -> tuple[int, str, str]:
        status = main(["audit", "--sql", query, "--out", str(out), *options])
        said, complained = capfdbinary.readouterr()
        return status, said.decode(), complained.decode()

    return ask


Ask = Callable[..., tuple[int, str, str]]

ODD_NAMES = (
    "date=2026-01-01",
    "date=x",
    "protocol=spp",
    "back\\slash",
    "[a",
    "a*?]",
    "s3:x",
    "it's",
    "%2F",
    *map(os.fsdecode, (b"\xff", b"\xff[")),
)
"""Names of directories that mean something to DuckDB or Arrow, or that they cannot take."""

NESTED = "/".join(sorted(filter(str.isascii, ODD_NAMES), key="s3:x".__ne__))
"""A path of every name that is a text; that of another kind of place begins it."""


def test_a_directory_may_have_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Also if it is named relative to the working directory, and if a checkpoint keeps a part of the tables."""
    monkeypatch.chdir(tmp_path)
    write_journal(tmp_path / "hall", day().records)
    events = b'{"n":%d}\n' % len(day().records)

    def check(name: str) -> None:
        out, kept = Path(name) / "out", tmp_path / "kept" / name
        with without_patience():
            audit(None, [tmp_path / "hall"], out, csv=True, checkpoint=kept)
        assert {each.name for each in (out / "csv").iterdir()} == {f"{each}.csv" for each in PUBLISHED}
        capfdbinary.readouterr()
        query = "SELECT CAST(sum(records) AS BIGINT) AS n FROM events WHERE date > DATE '2026-02-01'"
        assert main(["audit", "--sql", query, "--out", str(out), "--json"]) == 0
        assert capfdbinary.readouterr().out == events
        totals = json.loads((out / "summary.json").read_text())
        assert totals["records"] == len(day().records)

    check_each(((repr(name), name) for name in (ODD_NAMES if FULL else (NESTED, ODD_NAMES[-1]))), check)


def test_so_may_that_of_an_audit_in_stripes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that are open at the end of a stripe wait on the disk to be joined."""
    records, join, joined = day().records, tasks._join, []
    monkeypatch.setattr(tasks, "_join", lambda task: joined.append(task) or join(task))
    monkeypatch.setitem(stripes.fold_journals.__kwdefaults__, "size", 1)
    journal = write_journal(tmp_path / "hall", records[:9], records[9:])

    def check(name: str) -> None:
        joined.clear()
        with without_patience(), without_report():
            verdict = audit(None, [journal], tmp_path / name / "out")
        assert verdict.summary["records"] == len(records)
        assert joined

    check_each(((repr(name), name) for name in sample(ODD_NAMES)), check)


def test_readers_find_a_word_in_every_partition(out: Path) -> None:
    """Events of the server itself have no wire format. Arrow and Pandas cannot read a directory of NULL together with
    others."""
    assert (out / "tables/events/date=2027-01-15/protocol=unknown").is_dir()
    assert not [*out.rglob("*__HIVE_DEFAULT_PARTITION__*")]
    found = pq.read_table(out / "tables/events").to_pylist()
    assert {each["protocol"] for each in found if each["event"] == "server.started"} == {"unknown"}


def test_it_is_answered_as_a_table_as_json_and_as_csv(ask: Ask) -> None:
    query = (
        "SELECT protocol, count(*) AS number, sum(bytes_in) AS bytes, min(opened) AS first, max(date) AS day, "
        "[1, 2] AS list FROM sessions GROUP BY ALL"
    )
    assert ask(query) == (
        0,
        (
            "protocol  number  bytes  first                        day         list\n"
            "objects   13      -      2027-01-15T08:00:02.500000Z  2027-01-15  1, 2\n"
        ),
        "",
    )
    row = {"protocol": "objects", "number": 13, "bytes": None, "first": "2027-01-15T08:00:02.500000Z"}
    assert json.loads(ask(query, "--json")[1]) == {**row, "day": "2027-01-15", "list": [1, 2]}
    assert ask(query, "--csv")[1] == (
        '"protocol","number","bytes","first","day","list"\n'
        '"objects",13,,"2027-01-15T08:00:02.500000Z","2027-01-15","[1, 2]"\n'
    )
    assert ask("SELECT sum(records) AS n FROM events", "--json")[1] == '{"n":27}\n'
    assert ask("SELECT * FROM links")[1] == "none\n"
    assert ask("SELECT * FROM links", "--json") == (0, "", "")


def test_names_cannot_steer_the_terminal(ask: Ask) -> None:
    said = ask("SELECT claimed FROM sessions")[1]
    assert len(said.splitlines()) == len(TEXTS) + 1
    assert "".join(said.splitlines()).isprintable()
    assert {json.loads(line)["claimed"] for line in ask("SELECT claimed FROM sessions", "--json")[1].splitlines()} == {
        *TEXTS
    }


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("SELECT * FROM nothing", "Table with name nothing does not exist; the tables are absences, boots, "),
        ("SELECT nothing FROM boots", 'column "nothing" not found'),
        ("SELEC 1", 'syntax error at or near "SELEC"'),
        ("SELECT 1 / 'x'", "Could not convert string 'x'"),
        ("", "--sql takes one SELECT, not nothing"),
        ("SELECT 1; SELECT 2", "not SELECT and SELECT"),
        ("CREATE TABLE mine AS SELECT 1", "not CREATE"),
        ("COPY (SELECT 1) TO 'stolen'", "not COPY"),
        ("EXPORT DATABASE 'stolen'", "not EXPORT"),
        ("ATTACH 'stolen'", "not ATTACH"),
        ("INSTALL httpfs", "not LOAD"),
        ("LOAD httpfs", "not LOAD"),
        ("SET enable_external_access = true", "not SET"),
        ("CALL pragma_version()", "not CALL"),
        ("SELECT * FROM read_text('/etc/passwd')", "disabled by configuration"),
        ("SELECT * FROM '/etc/passwd'", "does not exist"),
        ("SELECT * FROM glob('/etc/*')", "disabled by configuration"),
        ("SELECT * FROM read_csv('https://192.0.2.1/x.csv')", "disabled by configuration"),
        ("SELECT * FROM query('COPY (SELECT 1) TO ''stolen''')", "Expected a single SELECT"),
        ("SELECT error('two\nlines')", "two"),
    ],
)
def test_what_cannot_be_answered_is_said_and_does_nothing(
    ask: Ask, query: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, said, complained = ask(query)
    assert (status, said, complained.count("\n")) == (2, "", 1)
    assert complaint in complained
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["journal"], "no JOURNAL is allowed with --sql"),
        (["--since", "2027-01-15T08:00:00Z"], "--since is not allowed with --sql"),
        (["--engine", "embedded"], "--engine is not allowed with --sql"),
        (["--csv", "--json"], "--json is not allowed with --csv"),
    ],
)
def test_what_asks_for_an_audit_is_refused(ask: Ask, arguments: list[str], complaint: str) -> None:
    status, _, complained = ask("SELECT 1", *arguments)
    assert (status, complaint in complained) == (2, True)


def test_there_must_be_an_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--sql", "SELECT 1", "--out", str(tmp_path)]) == 2
    assert f"{tmp_path} holds no finished audit: run bussrv audit JOURNAL" in capsys.readouterr().err


def rows(path: Path) -> Iterator[dict[str, str]]:
    return csv.DictReader(io.StringIO(path.read_text("utf-8"), newline=""))


def test_a_spreadsheet_takes_no_name_for_a_formula_or_two_rows(out: Path) -> None:
    assert {each.stem for each in (out / "csv").iterdir()} == {*PUBLISHED}
    for name in ("sessions", "refusals"):
        assert {each["claimed"] for each in rows(out / "csv" / f"{name}.csv")} == {*TEXTS.values()}
        assert (out / "csv" / f"{name}.csv").read_text("utf-8").count("\n") == len(TEXTS) + 1
    (boot,) = rows(out / "csv" / "boots.csv")
    assert (boot["first_seq"], boot["started"], boot["down_seconds"]) == ("1", "true", "")
    assert boot["first_moment"] == "2027-01-15T08:00:01.250000Z"


def test_csv_of_an_earlier_audit_does_not_stay(out: Path, tmp_path: Path) -> None:
    shutil.copytree(out, tmp_path / "out")
    assert (tmp_path / "out" / "csv").exists()
    with without_patience(), without_report():
        audit(None, [str(out.parent / "journal")], tmp_path / "out")
    assert not (tmp_path / "out" / "csv").exists()


def test_the_tables_of_both_engines_are_the_same_csv(whole: Whole, tmp_path: Path) -> None:
    with without_patience():
        audit(None, [whole.hall, whole.barn], tmp_path / "out", csv=True)
    write_csv(whole.out / "tables", tmp_path / "csv")
    for each in (tmp_path / "csv").iterdir():
        ours = (tmp_path / "out" / "csv" / each.name).read_text("utf-8")
        assert each.read_text("utf-8") == ours
    with answered(whole.out, "SELECT max(opened) AS last FROM sessions WHERE date > DATE '1999-12-31'") as found:
        assert str(found.schema.field("last").type) == "timestamp[us, tz=UTC]"


def test_every_query_of_the_report_is_answered(out: Path) -> None:
    """Most of them are only in reports of large journals."""
    templates = "".join(each.read_text("utf-8") for each in TEMPLATES.rglob("*.html"))
    queries = re.findall(r'"(SELECT [^"]*)"(?! ~)', templates)
    assert len(queries) > 15
    # All at once: to open the tables takes longer than to read them.
    with answered(out, "SELECT " + ", ".join(f"(SELECT count(*) FROM ({query}))" for query in queries)) as found:
        assert len(found.schema.names) == len(queries)


def test_the_commands_of_the_documentation(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    section = TEXT.partition("## Ask the tables\n")[2].partition("\n## ")[0]
    commands = re.findall(r"^\$ bussrv (.*)$", section, re.MULTILINE)
    assert len(commands) > 3
    monkeypatch.chdir(tmp_path)
    shutil.copytree(out, "bussrv-audit")
    shutil.copytree(out.parent / "journal", "bussrv-journal")
    for command in commands:
        assert main(shlex.split(command)) in (0, 1), command
    assert capfdbinary.readouterr().err == b""
