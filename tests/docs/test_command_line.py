"""The page about the ``bussrv`` command. Its examples are those of ``--help``: tests/cli/test_examples.py runs them."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from bussrv.cli.connection import ConnectionOptions
from bussrv.profiles import PORTS
from tests.docs.pages import ROOT, blocks, page

PAGE = "docs/reference/command-line.md"


def test_the_page_is_that_of_the_commands() -> None:
    """``python docs/_ext/command_line.py`` writes it."""
    made = runpy.run_path(str(ROOT / "docs/_ext/command_line.py"))
    assert made["with_commands"](page(PAGE)) == page(PAGE)
    words = {words for _, words, _ in made["all_commands"]()}
    assert [each for each in words if f"bussrv {each}" not in page(PAGE)] == []


def test_the_file_of_profiles_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = blocks(PAGE, "toml")
    (tmp_path / "bussrv").mkdir()
    file = tmp_path / "bussrv/profiles.toml"
    file.write_text(text)
    file.chmod(0o600)
    for name in ("BUSSRV_SERVER", "BUSSRV_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    nothing = dict.fromkeys(("server", "ca", "certificate", "key", "user", "secret_file", "token_file"))
    places = {}
    for profile in (None, "workshop"):
        connection = ConnectionOptions(**nothing, profile=profile, tls=False, insecure=True, timeout=1.0)
        for kind in PORTS:
            places[profile, kind] = connection.place(kind)
    assert str(places[None, "objects"].address) == "hall.example:7890"
    assert str(places[None, "spp"].address) == "hall.example:3002"
    assert places[None, "admin"].credentials.given() == {"user": "ann", "secret": "a secret of ann"}
    assert str(places["workshop", "inbus"].address) == "192.168.7.1:7222"
    assert places["workshop", "admin"].credentials.given() == {"token": "a token"}
