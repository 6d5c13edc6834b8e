"""The options of the journal, from the command line and the configuration file to what it is kept with."""

from pathlib import Path
from typing import Any

import pytest

from bussrv.journal.batch import Rotation
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.server.configuration.options import Options, StartError
from bussrv.server.running.journal import JournalConfig
from tests.server.configs import configured

EVERYTHING: dict[str, Any] = {
    "journal": "there",
    "journal-sync": "interval",
    "journal-segment-bytes": 1000,
    "journal-segment-age": 60.5,
    "journal-seal-interval": 0.5,
    "journal-key": "keys/seal",
    "journal-compress": True,
    "journal-retain-age": 86400,
    "journal-retain-bytes": 2000,
    "journal-pseudonyms": "keys/names",
    "journal-salvage": True,
}


def everything(directory: Path) -> JournalConfig:
    return JournalConfig(
        directory=directory / "there",
        sync="interval",
        rotation=Rotation(bytes=1000, age=60.5),
        policy=UpkeepPolicy(seal_interval=0.5, compress=True, retain_age=86400.0, retain_bytes=2000),
        key=directory / "keys/seal",
        pseudonyms=directory / "keys/names",
        salvage=True,
    )


def test_what_the_command_line_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [f"--{name}" if value is True else f"--{name}={value}" for name, value in EVERYTHING.items()]
    options = Options()
    options.parseOptions(arguments)
    assert options.config.journal_config == everything(tmp_path)


def test_what_the_configuration_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = {True: "true"}
    lines = [f"{name} = {words.get(value) or repr(value)}\n" for name, value in EVERYTHING.items()]
    (tmp_path / "bussrv.toml").write_text("".join(lines))
    options = Options()
    options.parseOptions(["--config", "bussrv.toml"])
    assert options.config.journal_config == everything(tmp_path)
    options = Options()
    options.parseOptions(["--config", "bussrv.toml", "--journal-segment-bytes", "7"])
    assert options.config.journal_config is not None
    assert options.config.journal_config.rotation == Rotation(bytes=7, age=60.5)


def test_what_goes_unsaid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = configured({}).journal_config
    assert found == JournalConfig(directory=tmp_path / "bussrv-journal")
    assert found.rotation == Rotation(bytes=64 << 20, age=3600.0)
    assert found.policy == UpkeepPolicy(seal_interval=60.0, compress=False, retain_age=None, retain_bytes=None)
    assert (found.sync, found.key, found.pseudonyms, found.salvage) == ("always", None, None, False)


def test_a_bad_value_is_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(StartError):
        Options().parseOptions(["--journal-segment-bytes", "0"])
    said = capfd.readouterr().err
    assert said.startswith("bussrv: --journal-segment-bytes: '0' is not a whole number of 1 or more")
    assert said.count("\n") == 1


def test_a_segment_is_not_larger_than_what_is_read_of_it(capfd: pytest.CaptureFixture[str]) -> None:
    options = Options()
    options.parseOptions(["--journal-segment-bytes", str(256 << 20)])
    with pytest.raises(StartError):
        Options().parseOptions(["--journal-segment-bytes", str((256 << 20) + 1)])
    assert (
        "--journal-segment-bytes: '268435457' is more than 268435456, the most there can be" in capfd.readouterr().err
    )
