"""``bussrv journal forget`` as a person meets it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.cli.main import main
from bussrv.journal.pseudonym_keys import identities
from bussrv.journal.pseudonyms import Pseudonyms


@pytest.fixture
def pseudonyms(tmp_path: Path) -> Iterator[Pseudonyms]:
    """Those of a running server that knows ann at 10.0.0.7."""
    pseudonyms = Pseudonyms(tmp_path / "keys")
    pseudonyms.hide(ev.AuthFailed(actor="ann", peer="10.0.0.7:50123"))
    pseudonyms.flush()
    yield pseudonyms
    pseudonyms.close()


def forget(*arguments: object) -> int:
    return main(["journal", "forget", *map(str, arguments)])


@pytest.mark.parametrize(
    ("whom", "left", "said"),
    [
        (
            ("--actor", "ann"),
            {"10.0.0.7"},
            "The actor is forgotten: nothing leads from its pseudonyms to it any more.\n",
        ),
        (
            ("--peer", "10.0.0.7"),
            {"ann"},
            "The address is forgotten: nothing leads from its pseudonyms to it any more.\n",
        ),
    ],
)
def test_somebody_is_forgotten_once(
    pseudonyms: Pseudonyms,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    whom: tuple[str, str],
    left: set[str],
    said: str,
) -> None:
    assert forget(tmp_path / "keys", *whom) == 0
    assert capsys.readouterr() == (said, "")
    assert {each.identity for each in identities(tmp_path / "keys")} == left
    assert forget(tmp_path / "keys", *whom) == 1


@pytest.mark.parametrize(
    ("whom", "said"),
    [
        (("--actor", "10.0.0.7"), "There is no such actor in the key file.\n"),
        (("--actor", ""), "There is no such actor in the key file.\n"),
        (("--peer", "ann"), "There is no such address in the key file.\n"),
    ],
)
def test_nobody_is_forgotten_who_is_not_there(
    pseudonyms: Pseudonyms, tmp_path: Path, capsys: pytest.CaptureFixture[str], whom: tuple[str, str], said: str
) -> None:
    assert forget(tmp_path / "keys", *whom) == 1
    assert capsys.readouterr() == (said, "")
    assert len(identities(tmp_path / "keys")) == 2


def test_a_file_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert forget(tmp_path / "keys", "--actor", "ann") == 2
    said, complained = capsys.readouterr()
    assert said == ""
    assert complained == (
        f"bussrv journal: cannot forget anybody in the key file {tmp_path / 'keys'}: No such file or directory\n"
    )


def test_a_damaged_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "keys").write_text('{"kind":"actor","identity":"ann"}\n')
    assert forget(tmp_path / "keys", "--actor", "ann") == 2
    assert f"{tmp_path / 'keys'}, line 1: not the key of a pseudonym" in capsys.readouterr().err


@pytest.mark.parametrize("whom", [(), ("--actor", "ann", "--peer", "10.0.0.7")])
def test_one_person_or_address_at_a_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], whom: tuple[str, ...]
) -> None:
    assert forget(tmp_path / "keys", *whom) == 2
    assert "--actor" in capsys.readouterr().err
