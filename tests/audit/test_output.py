from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from bussrv.audit.output import OutputRefused, check_output, publish, writing


def write(out: Path, content: str, tables: tuple[str, ...] = ("findings", "sessions")) -> Path:
    with writing(out) as place:
        for name in tables:
            (place / name).mkdir()
            (place / name / f"part-{content}").write_text(content)
        (place / "scratch").mkdir()
        (place / "report.html").write_text(content)
        return publish(out, place, tables, {"content": content})


def files(out: Path) -> set[str]:
    return {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}


def test_an_audit_is_written(tmp_path: Path) -> None:
    out = tmp_path / "some" / "where"
    path = write(out, "1")
    assert path == out / "summary.json"
    assert json.loads(path.read_text()) == {"content": "1"}
    assert files(out) == {
        ".bussrv-audit",
        "report.html",
        "summary.json",
        "tables/findings/part-1",
        "tables/sessions/part-1",
    }
    assert not (out / ".writing").exists()


def test_an_empty_directory_will_do(tmp_path: Path) -> None:
    write(tmp_path, "1")
    assert (tmp_path / "summary.json").exists()


def test_an_earlier_audit_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, "1", ("findings", "sessions", "retired"))
    (out / "notes.txt").write_text("mine")
    (out / "tables" / "mine").mkdir()
    (out / "tables" / "mine" / "table").write_text("mine")
    write(out, "2")
    assert files(out) == {
        ".bussrv-audit",
        "report.html",
        "summary.json",
        "notes.txt",
        "tables/findings/part-2",
        "tables/sessions/part-2",
        "tables/retired/part-1",
        "tables/mine/table",
    }


def test_an_audit_that_fails_leaves_the_earlier_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, "1")
    before = files(out)
    with suppress(ZeroDivisionError), writing(out) as place:
        (place / "findings").mkdir()
        1 / 0  # noqa: B018
    assert files(out) == before


def test_what_an_interrupted_audit_left_is_cleared(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, "1")
    (out / ".writing" / "findings").mkdir(parents=True)
    write(out, "2")
    assert json.loads((out / "summary.json").read_text()) == {"content": "2"}


def test_no_summary_stands_beside_the_tables_of_another_audit(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, "1")
    with suppress(FileNotFoundError), writing(out) as place:
        (place / "findings").mkdir()
        publish(out, place, ("findings", "missing"), {})
    assert not (out / "summary.json").exists()


def occupied(path: Path) -> None:
    path.mkdir()
    (path / "summary.json").write_text("{}")


@pytest.mark.parametrize(
    ("make", "said"),
    [(Path.touch, "out is not a directory"), (occupied, "out is neither empty nor an earlier audit")],
)
def test_what_is_not_ours_is_refused(tmp_path: Path, make, said: str) -> None:  # type: ignore[no-untyped-def]
    out = tmp_path / "out"
    make(out)
    before = files(tmp_path)
    with pytest.raises(OutputRefused, match=said):
        check_output(out)
    with pytest.raises(OutputRefused, match=said), writing(out):
        pass
    assert files(tmp_path) == before


def test_two_audits_do_not_write_at_once(tmp_path: Path) -> None:
    with writing(tmp_path) as place:
        with pytest.raises(OutputRefused, match="another audit is writing"), writing(tmp_path):
            pass
        assert place.exists()
