"""The file of the users of SPP, and the command that makes its lines."""

import io
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.cli.main import main
from bussrv.errors import ConfigError
from bussrv.formats.spp_users import NOBODY, SecretHash, check_user, hash_secret, parse_hash, read_users, user_line
from tests.tables import each_row

CHEAP = SecretHash(b"salt", bytes(32), 2, 1, 1)
LINE = "ann:" + str(CHEAP.made_of(b"s3cret"))


@settings(max_examples=30)
@given(st.binary(), st.binary(min_size=1), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_what_is_written_is_read_and_matches_its_secret_only(
    secret: bytes, salt: bytes, power: int, block_size: int, parallelism: int
) -> None:
    made = SecretHash(salt, bytes(32), 1 << power, block_size, parallelism).made_of(secret)
    assert parse_hash(str(made)) == made
    assert made.matches(secret) == (b"\0" not in secret)
    assert not made.matches(secret + b"x")
    assert not made.matches(secret + b"\0")


def test_a_hash_of_known_input_is_the_one_of_the_standard() -> None:
    """RFC 7914, section 12: password, NaCl, N=1024, r=8, p=16."""
    made = SecretHash(b"NaCl", bytes(64), 1024, 8, 16).made_of(b"password")
    assert made.digest.hex().startswith("fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162")


def test_each_hash_has_its_own_salt_and_costs_something() -> None:
    one, two = hash_secret(b"same"), hash_secret(b"same")
    assert one.salt != two.salt
    assert (one.cost, one.block_size, one.parallelism) == (1 << 15, 8, 3)
    assert not NOBODY.matches(b"")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        "scrypt$2$1$1$c2FsdA==",
        "scrypt$2$1$1$c2FsdA==$" + "A" * 44 + "$",
        "bcrypt$2$1$1$c2FsdA==$" + "A" * 44,
        "scrypt$x$1$1$c2FsdA==$" + "A" * 44,
        "scrypt$2$1$1$?$" + "A" * 44,
        "scrypt$3$1$1$c2FsdA==$" + "A" * 44,
        "scrypt$1$1$1$c2FsdA==$" + "A" * 44,
        "scrypt$0$1$1$c2FsdA==$" + "A" * 44,
        "scrypt$2$0$1$c2FsdA==$" + "A" * 44,
        "scrypt$2$1$0$c2FsdA==$" + "A" * 44,
        "scrypt$2$1$65$c2FsdA==$" + "A" * 44,
        "scrypt$1073741824$8$1$c2FsdA==$" + "A" * 44,
        "scrypt$2$1$1$$" + "A" * 44,
        "scrypt$2$1$1$c2FsdA==$",
        "scrypt$2$1$1$c2FsdA==$AAAA",
    ],
)
def test_what_is_no_hash_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"N|r is|salt|scrypt"):
        parse_hash(text)
    (tmp_path / "users").write_text(f"{LINE}\nbob:{text}\n")
    with pytest.raises(ConfigError, match=r"users, line 2: .*; make lines with: bussrv spp-user NAME"):
        read_users(tmp_path / "users")


@each_row("user", ["", "a" * 256, "ü" * 128, " ann", "ann ", "#ann", "a\nb", "a\0b", "a\u2028b", "\ud800"])
def test_names_that_will_not_do(user: str) -> None:
    with pytest.raises(ValueError, match="the name of a user"):
        check_user(user)


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "users"
    other = CHEAP.made_of(b"x")
    path.write_text(f"# who may watch\n\n{LINE}  \r\nTürwächter: der erste:{other}\n", "utf-8", newline="")
    assert read_users(path) == {"ann": CHEAP.made_of(b"s3cret"), "Türwächter: der erste": other}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read the users in .*: No such file"),
        (b"\xff", "are not UTF-8"),
        (f"{LINE}\n{LINE}\n".encode(), "line 2: the user has a line already"),
        (LINE.partition(":")[2].encode(), "line 1: the name of a user"),
        (b"ann\n", "line 1: not of the form"),
    ],
)
def test_a_file_that_makes_no_sense(content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "users").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_users(tmp_path / "users")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def answers(monkeypatch: pytest.MonkeyPatch, *said: str) -> None:
    """A terminal at which this is said."""
    left = list(said)
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda prompt: left.pop(0))


def test_the_command_makes_a_line_of_the_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("s3crët \nmore\n"))
    assert main(["spp-user", "ann"]) == 0
    (tmp_path / "users").write_text(capsys.readouterr().out)
    assert read_users(tmp_path / "users")["ann"].matches("s3crët ".encode())


def test_the_command_asks_twice_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, "same", "same")
    assert main(["spp-user", "ann"]) == 0
    assert capsys.readouterr().out.startswith("ann:scrypt$32768$8$3$")
    answers(monkeypatch, "one", "other")
    assert main(["spp-user", "ann"]) == 1
    assert capsys.readouterr() == ("", "bussrv spp-user: that was not the same secret\n")


@pytest.mark.parametrize(("name", "secret"), [("", "x\n"), ("#", "x\n"), ("ann", "\n"), ("ann", ""), ("ann", "a\0\n")])
def test_the_command_refuses_what_will_not_do(
    name: str, secret: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(secret))
    assert main(["spp-user", name]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)


def test_a_line_has_no_line_end() -> None:
    line = user_line("ann", b"x")
    assert line.startswith("ann:scrypt$")
    assert "\n" not in line


@pytest.mark.parametrize(("mode", "is_fine"), [(0o600, True), (0o644, True), (0o620, False), (0o602, False)])
def test_a_file_that_others_may_write_is_refused(mode: int, is_fine: bool, tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.touch()
    path.chmod(mode)
    if is_fine:
        assert read_users(path) == {}
    else:
        with pytest.raises(ConfigError, match=f"may be changed by others: chmod go-w {path}"):
            read_users(path)


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "users"
    path.touch()
    if os.geteuid() == 0:
        os.chown(path, 54_321, -1)
    else:
        monkeypatch.setattr("os.geteuid", lambda: 54_321)
    with pytest.raises(ConfigError, match="belong to another user: chown"):
        read_users(path)
