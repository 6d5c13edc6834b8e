"""The file of users, and the command that changes it."""

import io
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.cli.main import main
from bussrv.errors import ConfigError
from bussrv.policy.logins.users import NOBODY, USERS_FILE, SecretHash, check_user, hash_secret, parse_hash, user_line
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


@pytest.mark.dear
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
    with pytest.raises(ConfigError, match=r"users, line 2: .*; make lines with: bussrv passwd .*users USER"):
        USERS_FILE.read(tmp_path / "users")


@each_row(
    "user", ["", "a" * 256, "ü" * 128, " ann", "ann ", "#ann", "a\nb", "a\0b", "a\u2028b", "\ud800", "anonymous", "*"]
)
def test_names_that_will_not_do(user: str) -> None:
    with pytest.raises(ValueError, match=r"the name of a user|can have the name"):
        check_user(user)


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "users"
    other = CHEAP.made_of(b"x")
    path.write_text(f"# who may watch\n\n{LINE}  \r\nTürwächter: der erste:{other}\n", "utf-8", newline="")
    assert USERS_FILE.read(path) == {"ann": CHEAP.made_of(b"s3cret"), "Türwächter: der erste": other}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read the users in .*: No such file"),
        (b"\xff\n", "are not UTF-8"),
        (f"{LINE}\n{LINE}\n".encode(), "line 2: the user has a line already"),
        (LINE.partition(":")[2].encode() + b"\n", "line 1: the name of a user"),
        (LINE.encode(), "users ends in the middle of a line"),
        (b"ann\n", "line 1: not of the form"),
    ],
)
def test_a_file_that_makes_no_sense(content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "users").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        USERS_FILE.read(tmp_path / "users")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def answers(monkeypatch: pytest.MonkeyPatch, *said: str) -> None:
    """A terminal at which this is said."""
    left = list(said)
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda prompt: left.pop(0))


def passwd(path: Path, *arguments: str) -> int:
    return main(["passwd", str(path), *arguments])


@pytest.mark.usefixtures("cheap_secrets")
def test_the_command_adds_replaces_and_deletes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "users"

    def put(user: str, secret: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{secret}\nmore\n"))
        assert passwd(path, user, "--stdin") == 0

    put("ann", "s3crët  ")
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text(f"# who may come in\n\n{path.read_text()}")
    path.chmod(0o640)
    put("bob", "bob's own")
    before = path.read_text().splitlines()
    put("ann", "another one")
    assert path.stat().st_mode & 0o777 == 0o600
    after = path.read_text().splitlines()
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, True, False, True]
    users = USERS_FILE.read(path)
    assert users["ann"].matches(b"another one")
    assert users["bob"].matches(b"bob's own")
    assert passwd(path, "ann", "--delete") == 0
    assert path.read_text().splitlines() == [*before[:2], before[3]]
    assert passwd(path, "ann", "--delete") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["users"]


@pytest.mark.usefixtures("cheap_secrets")
def test_the_command_follows_a_symbolic_link(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "users").symlink_to("etc/users")
    answers(monkeypatch, "the same", "the same")
    assert passwd(tmp_path / "users", "ann") == 0
    assert (tmp_path / "users").is_symlink()
    assert USERS_FILE.read(tmp_path / "etc" / "users").keys() == {"ann"}


@pytest.mark.dear
def test_the_command_asks_twice_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "users"
    answers(monkeypatch, "the same", "the same")
    assert passwd(path, "ann") == 0
    assert path.read_text().startswith("ann:scrypt$32768$8$3$")
    answers(monkeypatch, "one", "other")
    assert passwd(path, "ann") == 1
    said = capsys.readouterr()
    assert said.out.endswith("With a policy, a user without a rule may do nothing.\n")
    assert said.err == "bussrv passwd: the two secrets differ\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("x\n"))
    assert passwd(path, "ann") == 1
    assert "use --stdin" in capsys.readouterr().err
    assert USERS_FILE.read(path)["ann"].matches(b"the same")


@pytest.mark.parametrize(
    ("name", "secret"),
    [("", "x\n"), ("#", "x\n"), ("ann", "\n"), ("ann", ""), ("ann", "a\0 long secret\n"), ("ann", "7 chars\n")],
)
def test_the_command_refuses_what_will_not_do(
    name: str, secret: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(secret))
    assert passwd(tmp_path / "users", name, "--stdin") == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("cheap_secrets")
@pytest.mark.parametrize(("name", "fault"), [("users/none", "Not a directory"), ("none/users", "No such file")])
def test_a_file_that_cannot_be_written(
    name: str, fault: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "users").touch(0o600)
    monkeypatch.setattr("sys.stdin", io.StringIO("a long secret\n"))
    assert passwd(tmp_path / name, "ann", "--stdin") == 1
    assert f"cannot write the users in {tmp_path / name}: {fault}" in capsys.readouterr().err


@pytest.mark.usefixtures("cheap_secrets")
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
        assert USERS_FILE.read(path) == {}
    else:
        with pytest.raises(ConfigError, match=f"may be changed by others: chmod go-w {path}"):
            USERS_FILE.read(path)


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "users"
    path.touch()
    if os.geteuid() == 0:
        os.chown(path, 54_321, -1)
    else:
        monkeypatch.setattr("os.geteuid", lambda: 54_321)
    with pytest.raises(ConfigError, match="belong to another user: chown"):
        USERS_FILE.read(path)
