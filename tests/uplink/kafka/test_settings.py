"""Options that do not go together, and those that cannot be used, are one sentence."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from bussrv.cli.commands.operate.uplink import ENGINES, Engine
from bussrv.cli.main import main

URL = "kafka://127.0.0.1:1"
SERVICE = "--service tv --out --id hall --bus bus://127.0.0.1"


def test_an_option_of_another_engine_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENGINES, "other", Engine("other", "Other", "none", "none"))
    assert main(["uplink", "other://hall", "--topic", "x"]) == 2
    assert "--topic does not go with other://hall: it is an option of Kafka" in capsys.readouterr().err


def test_the_help_says_which_option_is_for_which_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["uplink", "--help"]) == 0
    _, _, options = capsys.readouterr().out.partition("\nOptions:\n")
    parts = re.split(r"^Only for \w+:$", options, flags=re.MULTILINE)
    common, nats, kafka = ({*re.findall(r"^  (--[a-z-]+)", part, re.MULTILINE)} for part in parts)
    assert {"--bus", "--journal", "--metrics"} <= common
    assert {"--net", "--lapse"} <= nats
    assert {"--topic", "--events"} <= kafka
    assert len(common | nats | kafka) == len(common) + len(nats) + len(kafka)


def test_an_engine_that_is_not_installed_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENGINES, "other", Engine("other", "Other", "missing_module", "missing_module"))
    assert main(["uplink", "other://hall"]) == 2
    assert 'missing_module is not installed: pip install "bussrv[other]"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("nats+x://hall", "nats+x://hall is no URL of an engine: it begins with one of kafka://, kafkas://"),
        ("hall:9092 --events", "hall:9092 is no URL of an engine"),
        (URL, "there is nothing to do: say --events, or --service NAME with --out or --in"),
        (f"{URL} --events", "--events needs --journal"),
        (f"{URL} --events --journal nothing", "cannot read the journal directory nothing"),
        (f"{URL} --events --journal . --topic a/b", "--topic a/b: a name of a topic has letters"),
        (f"{URL} --events --journal . --kafka-user ann", "--kafka-user needs a password"),
        (
            f"{URL} --events --journal . --kafka-password-file secret",
            "there is a password of Kafka, and no --kafka-user",
        ),
        (f"{URL} --events --journal . --metrics x:y", "--metrics x:y: invalid literal"),
        (f"{URL} --service tv", "--service needs a direction"),
        (f"{URL} --service tv --in", "--service needs --bus"),
        (f"{URL} --service tv --in --bus bus://hall", "--service needs --id"),
        (f"{URL} --service bus/clock {SERVICE}", "--service bus/clock: it is a service of the server itself"),
        (f"{URL} --service a/#/b {SERVICE}", "--service a/#/b: in a pattern, # is the last level"),
        (f"{URL} --in --service {'é' * 100} {SERVICE}", "would have 604 characters, and may have 249"),
        (f"{URL} {SERVICE} --prefix a/", "--prefix a/: it has letters"),
        (f"{URL} {SERVICE} --bus spp://hall", "--bus spp://hall: spp is none of bus, buss, ws, wss, profile"),
        (f"{URL} {SERVICE} --bus bus://far --bus-user ann --bus-secret-file secret", "not reached over TLS"),
        (f"{URL} {SERVICE} --bus-secret-file secret", "a secret belongs to a user"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(
    words: str, sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text("a secret of ann\n")
    (tmp_path / "secret").chmod(0o600)
    assert main(["uplink", *shlex.split(words)]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "a secret of ann" not in said
