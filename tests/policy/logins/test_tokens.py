"""Tokens: their file, the command that changes it, and what they prove."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.cli.main import main
from bussrv.errors import ConfigError
from bussrv.policy.logins.checkers import Tokens
from bussrv.policy.logins.credentials import Denial, Proof, Token
from bussrv.policy.logins.tokens import (
    MAX_TOKEN,
    PREFIX,
    TOKENS_FILE,
    TokenUse,
    add_token,
    digest,
    format_expiry,
    new_token,
    parse_expiry,
    parse_token,
    token_line,
)
from bussrv.policy.logins.users import put_user
from tests.tables import each_row

SECOND = 1_000_000
HASH = "0123456789abcdef" * 4
USERS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(
    lambda text: text.isprintable() and text == text.strip() and not text.startswith("#") and text not in ("*",)
)
EXPIRIES = st.none() | st.integers(0, 250_000_000_000).map(lambda seconds: seconds * SECOND)


@given(USERS, st.text(), EXPIRIES)
def test_what_is_written_is_read(user: str, token: str, expires: int | None) -> None:
    line = token_line(user, token, expires)
    assert parse_token(line) == (digest(token), TokenUse(user, expires))
    assert parse_token(line + " \r") == parse_token(line)


@given(st.integers(0, 250_000_000_000))
def test_expiries_are_seconds_of_utc(seconds: int) -> None:
    assert parse_expiry(format_expiry(seconds * SECOND + 999_999)) == seconds * SECOND


def test_a_token_has_256_bits_and_a_hash_is_the_standard_one() -> None:
    one, two = new_token(), new_token()
    assert one != two
    assert re.fullmatch(rf"{PREFIX}[\w-]{{43}}", one, re.ASCII)
    assert digest("abc").hex().startswith("ba7816bf8f01cfea414140de5dae2223b00361a396177a9c")


@each_row(
    "line",
    [
        "ann",
        "ann:sha256",
        f"ann:sha256${HASH[:-1]}",
        f"ann:sha256${HASH}0",
        f"ann:sha256${HASH.upper()}",
        f"ann:sha1${HASH}",
        f":sha256${HASH}",
        f"anonymous:sha256${HASH}",
        f"ann:sha256${HASH}$",
        f"ann:sha256${HASH}$2026-12-24",
        f"ann:sha256${HASH}$2026-12-24T18:00:00",
        f"ann:sha256${HASH}$2026-12-24T18:00:00+01:00",
        f"ann:sha256${HASH}$2026-13-24T18:00:00Z",
        f"ann:sha256${HASH}$٢٠٢٦-12-24T18:00:00Z",
        f"ann:sha256${HASH}$2026-12-24T18:00:00Z$",
    ],
)
def test_a_line_that_makes_no_sense_has_its_number(line: str, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"# tokens\n\n{line}\n")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=rf"{path}, line 3: .*; make lines with: bussrv token {path} USER"):
        TOKENS_FILE.read(path)


def test_a_file_that_is_cut_off_within_a_line_is_refused(tmp_path: Path) -> None:
    """Without its expiry, a line would prove for ever what its token proved for a while."""
    path = tmp_path / "tokens"
    whole = "".join(f"{token_line('ann', token, 1)}\n" for token in "ab").encode()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        if whole[:size].endswith(b"\n") or not size:
            assert len(TOKENS_FILE.read(path)) == bool(size)
            continue
        with pytest.raises(ConfigError, match="ends in the middle of a line: the file was cut off"):
            TOKENS_FILE.read(path)
        with pytest.raises(ConfigError, match="ends in the middle of a line"):
            add_token(path, "ben", None)
        assert path.read_bytes() == whole[:size]


def test_a_token_stands_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"ann:sha256${HASH}\nbob:sha256${HASH}\n")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="line 2: the token has a line already"):
        TOKENS_FILE.read(path)
    path.chmod(0o622)
    with pytest.raises(ConfigError, match=f"the tokens in {path} may be changed by others: chmod go-w"):
        TOKENS_FILE.read(path)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000_000_000.5)
    path = tmp_path / "tokens"

    def command(*arguments: str) -> tuple[int, str, str]:
        status = main(["token", str(path), *arguments])
        said = capsys.readouterr()
        return status, said.out.rstrip("\n"), said.err

    made = [command(*each)[1] for each in (["ann"], ["ann", "--expires", "30d"], ["bob", "--expires", "90m"])]
    assert path.stat().st_mode & 0o777 == 0o600
    assert TOKENS_FILE.read(path) == {
        digest(made[0]): TokenUse("ann"),
        digest(made[1]): TokenUse("ann", (1_000_000_000 + 30 * 86_400) * SECOND),
        digest(made[2]): TokenUse("bob", (1_000_000_000 + 90 * 60) * SECOND),
    }
    assert not any(each in path.read_text() for each in made)
    for wrong in ("30", "d", "0d", "1y", "1.5h", "٣d", "999999w"):
        status, said, fault = command("ann", "--expires", wrong)
        assert (status, said, fault.count("\n")) == (1, "", 1)
    assert command("", "--expires", "1d")[0] == 1
    assert command("ann", "--delete") == (0, "", "")
    assert TOKENS_FILE.read(path).keys() == {digest(made[2])}
    assert command("ann", "--delete") == (1, "", f"bussrv token: {path} has no token of ann\n")


@pytest.mark.usefixtures("cheap_secrets")
def test_a_file_of_something_else_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    users, tokens = tmp_path / "users", tmp_path / "tokens"
    put_user(users, "ann", b"s3cret")
    add_token(tokens, "ann", None)
    before = users.read_text(), tokens.read_text()
    monkeypatch.setattr("sys.stdin", io.StringIO("a long s3cret\n"))
    assert main(["token", str(users), "bob"]) == main(["passwd", "--stdin", str(tokens), "bob"]) == 1
    assert (users.read_text(), tokens.read_text()) == before
    one, other = capsys.readouterr().err.splitlines()
    assert one.startswith(f"bussrv token: {users}, line 1: not of the form user:sha256$HASH")
    assert other.startswith(f"bussrv passwd: {tokens}, line 1: not of the form user:scrypt$")


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.none() | st.integers(0, 4))),
    st.sampled_from("wxyz"),
    st.integers(0, 4),
)
def test_tokens_prove_what_a_plain_reading_of_the_lines_says(
    lines: list[tuple[str, str, int | None]], tried: str, now: int
) -> None:
    uses = {digest(token): TokenUse(user, expires) for user, token, expires in lines}
    tokens = Tokens(uses)
    tokens.utc = lambda: now
    found = [(user, expires) for user, token, expires in lines if token == tried][-1:]
    checked = tokens.check_token(Token(tried))
    if not found:
        assert checked is None
    elif found[0][1] is not None and found[0][1] <= now:
        assert checked == Denial("token", "token-expired", found[0][0])
    else:
        assert checked == Proof(found[0][0], "token", digest(tried), found[0][1])
        assert isinstance(checked, Proof)
        assert tokens.holds(checked)
        without = Tokens({key: use for key, use in uses.items() if key != digest(tried)})
        assert not without.holds(checked)
        tokens.utc = lambda: 5
        assert tokens.holds(checked) == (found[0][1] is None)
        tokens.utc = lambda: now
    later = [each.expires for each in uses.values() if each.expires is not None and each.expires > now]
    assert tokens.next_expiry() == min(later, default=None)


@each_row("token", ["", "x" * (MAX_TOKEN + 1), "\ud800"])
def test_what_can_be_no_token_is_none(token: str) -> None:
    assert Tokens({digest(token): TokenUse("ann")} if len(token) > MAX_TOKEN else {}).check_token(Token(token)) is None


def test_nothing_shows_a_token() -> None:
    shown: list[Any] = [Token("MARKER"), Proof("ann", "token", digest("MARKER"))]
    assert [each for each in map(repr, shown) if "MARKER" in each or digest("MARKER").hex() in each] == []
