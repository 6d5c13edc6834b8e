"""``bussrv journal forget --spool``, while a server uses the spool and when none does."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.cli.main import main
from bussrv.errors import Refused
from bussrv.journal.pseudonyms import Pseudonyms
from bussrv.spool.entries import Append, Claim
from bussrv.spool.file import NAME
from tests.spool.support import Scene, bytes_of


def forget(directory: Path, *arguments: str) -> int:
    return main(["journal", "forget", "--spool", str(directory), *arguments])


def secret(owner: str, number: int) -> bytes:
    """The payload of an entry: short and long ones, among those of others."""
    return b"<%s %d>" % (owner.encode(), number) * (1 + number * 97)


@pytest.fixture
def filled(scene: Scene) -> Scene:
    """A spool of three sessions, two of them of one user, two of them at one address."""
    for owner, actor, address in (
        ("s1", "ann", "10.0.0.1:7"),
        ("s2", "ann", "[2001:db8::1]:7"),
        ("s3", "", "10.0.0.1:9"),
    ):
        scene.write(Claim(owner=owner, actor=actor or None, address=address))
    for number in range(12):
        scene.write(*(Append(owner=each, kind="q", payload=secret(each, number)) for each in ("s1", "s2", "s3")))
    return scene


WHOM = [
    (["--actor", "ann"], ["s1", "s2"]),
    (["--peer", "10.0.0.1"], ["s1", "s3"]),
    (["--peer", "[2001:0db8:0::1]:80"], ["s2"]),
    (["--session", "s3"], ["s3"]),
]


@pytest.mark.parametrize("is_running", [True, False])
@pytest.mark.parametrize(("arguments", "gone"), WHOM)
def test_what_is_kept_for_somebody_is_removed(
    tmp_path: Path,
    filled: Scene,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    gone: list[str],
    is_running: bool,
) -> None:
    directory = tmp_path / "spool"
    if not is_running:
        filled.close()
    assert forget(directory, *arguments) == 0
    said = f"Removed from the spool: sessions {len(gone)}, entries {12 * len(gone)}.\n"
    assert capsys.readouterr() == (said, "")
    found = bytes_of(directory)
    assert {each for each in ("s1", "s2", "s3") if f"<{each} ".encode() in found} == {"s1", "s2", "s3"} - {*gone}
    assert forget(directory, *arguments) == 1
    assert capsys.readouterr() == ("The spool keeps nothing for it.\n", "")
    if not is_running:
        filled.start()
    for each in ("s1", "s2", "s3"):
        change = Append(owner=each, kind="q", payload=b"later")
        if each in gone:
            with pytest.raises(Refused, match="nothing is kept"):
                filled.write(change)
        else:
            filled.write(change)
            assert filled.payloads(each, "q") == [*(secret(each, number) for number in range(12)), b"later"]
    # What is gone does not count any more.
    owner = filled.wait(filled.spool.owner("s1"))
    assert (owner is None) == ("s1" in gone)


def test_a_person_is_forgotten_in_both_places(
    tmp_path: Path, filled: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = Pseudonyms(tmp_path / "keys")
    keys.hide(ev.AuthFailed(actor="ann", peer="10.0.0.7:50123"))
    keys.flush()
    keys.close()
    assert forget(tmp_path / "spool", str(tmp_path / "keys"), "--actor", "ann", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"forgotten": True, "sessions": 2, "entries": 24}
    assert forget(tmp_path / "spool", str(tmp_path / "keys"), "--actor", "ann") == 1
    said = "There is no such actor in the key file.\nThe spool keeps nothing for it.\n"
    assert capsys.readouterr() == (said, "")


def test_it_waits_for_the_server_and_the_server_for_it(tmp_path: Path, filled: Scene) -> None:
    """The server's transaction is refused, and nothing of it done, if another process keeps the file too long."""
    with closing(sqlite3.connect(tmp_path / "spool" / NAME, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        filled.disk.failing = set()
        asked = filled.spool.write([Append(owner="s1", kind="q", payload=b"late")])
        other.execute("COMMIT")
        assert filled.wait(asked).numbers == (37,)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda path: None, "there is no spool in"),
        (lambda path: path.write_bytes(b"x" * 5000), "cannot forget anybody in the spool"),
    ],
)
def test_a_spool_that_cannot_be_used_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], made, said) -> None:
    made(tmp_path / NAME)
    assert forget(tmp_path, "--actor", "ann") == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert said in error


@pytest.mark.parametrize(
    "arguments", [["--actor", "ann"], ["keys", "--session", "s"], ["keys"], ["keys", "--spool", "d", "--session", "s"]]
)
def test_it_has_to_be_said_who_and_where(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "forget", *arguments]) == 2
    assert "(see bussrv journal forget --help)" in capsys.readouterr().err
