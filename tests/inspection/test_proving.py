"""``bussrv journal checkpoint``, ``prove``, ``check-proof`` and ``verify --witness-key`` as an auditor meets them."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.inspection.proving import Wanted, _check, run_prove
from bussrv.inspection.standalone_check import Wrong, check
from bussrv.journal.checkpoints import log_key
from bussrv.journal.keys import read_public
from bussrv.transparency.notes import NoteError, parse_key
from bussrv.transparency.proofs import parse_proof
from tests.docs.golden import PLACE, WITNESS
from tests.inspection.shell import Shell

GOLDEN = PLACE / "whole"


@pytest.fixture
def key(shell: Shell) -> str:
    """The verifier key of the golden journal, as an auditor has it from elsewhere."""
    status, said, _ = shell.run("checkpoint", GOLDEN, "--verifier-key")
    assert status == 0
    text = said.strip()
    assert bytes.fromhex(read_public(PLACE / "second.pub").text) in __import__("base64").b64decode(
        text.split("+", 2)[2]
    )
    return text


def cosigned_key() -> str:
    """The first key of it, under which a witness cosigned."""
    return log_key("bussrv.local/hall", read_public(PLACE / "first.pub")).text


def test_a_checkpoint_is_printed(shell: Shell, key: str) -> None:
    status, text, _ = shell.run("checkpoint", GOLDEN)
    assert (status, text.splitlines()[:2]) == (0, ["bussrv.local/hall", "38"])
    facts = json.loads(shell.run("checkpoint", GOLDEN, "--json")[1])
    assert (facts["checkpoint"], facts["verifier_key"], facts["size"]) == (text, key, 38)
    status, _, complained = shell.run("checkpoint", PLACE / "salvaged", "--verifier-key")
    assert status == 1
    assert "are not signed" in complained


@pytest.mark.processes
def test_one_record_is_proved_and_checked(shell: Shell, key: str, tmp_path: Path) -> None:
    made = tmp_path / "one.tlog-proof"
    status, said, _ = shell.run("prove", GOLDEN, 28, "-o", made)
    assert (status, key in said) == (0, True)
    status, said, _ = shell.run("check-proof", made, "--log-key", key)
    assert (status, json.loads(said.splitlines()[0])["seq"]) == (0, 28)
    assert said.splitlines()[-1] == "OK: 1 records of bussrv.local/hall"
    assert "record 28 is in bussrv.local/hall" in check(made.read_text(), key, [], 0)
    other = cosigned_key()
    assert shell.run("check-proof", made, "--log-key", other)[0] == 1
    status, _, complained = shell.run("check-proof", made)
    assert (status, "give --log-key" in complained) == (2, True)
    assert shell.run("check-proof", made, "--log-key", key, "--witness-key", WITNESS.verifier.text)[0] == 1


def run_alone(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program in the bundle, without bussrv."""
    command = [sys.executable, "-I", "check.py", *arguments]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)


@pytest.mark.processes
def test_a_bundle_is_checked_without_bussrv(shell: Shell, key: str, tmp_path: Path) -> None:
    made, place = tmp_path / "anna.zip", tmp_path / "unpacked"
    assert shell.run("prove", GOLDEN, "--about", "anna", "-o", made, "--witness-key", WITNESS.verifier.text)[0] == 0
    status, said, _ = shell.run("check-proof", made)
    assert (status, "was not compared" in said) == (0, True)
    zipfile.ZipFile(made).extractall(place)
    records = (place / "records.jsonl").read_text().splitlines()
    assert len(records) > 3
    assert all('"claimed":"anna"' in line for line in records)
    # It uses the keys in the bundle, where the witness counts only if it cosigned.
    assert run_alone(place).returncode == 0
    done = run_alone(place, "--log-key", key)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "OK")
    assert run_alone(place, "--log-key", cosigned_key()).returncode == 1
    done = run_alone(place, "--log-key", key, "--witness-key", WITNESS.verifier.text)
    assert (done.returncode, "0 of the witnesses" in done.stderr) == (1, True)
    first = min(place.glob("*.tlog-proof"))
    text = first.read_text()
    first.write_text(text.replace("index 2", "index 1"))
    assert run_alone(place).returncode == 1


@pytest.mark.processes
def test_cosigned_records_are_proved_by_the_cosigned_checkpoint(shell: Shell, tmp_path: Path) -> None:
    made = tmp_path / "one.tlog-proof"
    assert shell.run("prove", GOLDEN, 12, "-o", made)[0] == 0
    trust = ("--log-key", cosigned_key(), "--witness-key", WITNESS.verifier.text)
    assert shell.run("check-proof", made, *trust)[0] == 0
    assert "cosigned by 1 witnesses" in check(made.read_text(), cosigned_key(), [WITNESS.verifier.text], 1)
    status, said, _ = shell.run("verify", GOLDEN, "--witness-key", WITNESS.verifier.text)
    assert (status, "not-witnessed" in said) == (1, True)
    assert shell.run("verify", GOLDEN, "--checkpoint", made, "--public-key", PLACE / "second.pub")[0] == 0
    assert shell.run("verify", PLACE / "salvaged", "--checkpoint", made)[0] == 2


PROOF: dict[str, str] = {}


@pytest.mark.processes
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_both_checks_find_every_changed_character(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """The same is right to the program in the bundle, and to bussrv."""
    if not PROOF:
        made = tmp_path_factory.mktemp("proof") / "one.tlog-proof"
        run_prove(GOLDEN, Wanted(seq=28), made)
        PROOF["text"] = made.read_text("utf-8")
        PROOF["key"] = log_key("bussrv.local/hall", read_public(PLACE / "second.pub")).text
    text = PROOF["text"]
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("AZaz09+/= \n").filter(lambda each: each != text[at]))
    changed = text[:at] + other + text[at + 1 :]
    with pytest.raises((Wrong, ValueError)):
        check(changed, PROOF["key"], [], 0)
    with pytest.raises(NoteError):
        _check(parse_proof(changed.encode()), parse_key(PROOF["key"]), [], 0)


@pytest.mark.parametrize(
    ("arguments", "status", "what"),
    [
        (("39",), 2, "no checkpoint has the records 39"),
        (("3",), 2, "record 3 is not in"),
        (("--about", "nobody"), 2, "has no such record"),
        (("--about", "anna", "--most", "2"), 2, "more than 2 such records"),
        ((), 2, "name a record"),
        (("28", "--about", "anna"), 2, "not allowed"),
    ],
)
def test_what_cannot_be_proved_is_said(
    shell: Shell, tmp_path: Path, arguments: tuple[str, ...], status: int, what: str
) -> None:
    found, _, complained = shell.run("prove", GOLDEN, *arguments, "-o", tmp_path / "x.zip")
    assert (found, what in complained) == (status, True), complained


@pytest.mark.processes
def test_a_time_stamp_is_checked_offline(shell: Shell, key: str, tmp_path: Path) -> None:
    config = tmp_path / "tsa.cnf"
    config.write_text(
        "[req]\ndistinguished_name=dn\n[dn]\n[ext]\nextendedKeyUsage=critical,timeStamping\n"
        "[tsa]\ndefault_tsa=t\n[t]\nserial=serial\ndefault_policy=1.2.3.4\nsigner_digest=sha256\ndigests=sha256\n"
    )
    (tmp_path / "serial").write_text("01")
    (tmp_path / "checkpoint.txt").write_text(shell.run("checkpoint", GOLDEN)[1])
    for command in (
        "req -x509 -newkey rsa:2048 -nodes -subj /CN=TSA -keyout tsa.key -out tsa.pem -config tsa.cnf -extensions ext",
        "ts -query -data checkpoint.txt -sha256 -cert -out query.tsq",
        "ts -reply -config tsa.cnf -section t -queryfile query.tsq -signer tsa.pem -inkey tsa.key -out checkpoint.tsr",
    ):
        subprocess.run(["openssl", *command.split()], cwd=tmp_path, check=True, capture_output=True)
    made, bad = tmp_path / "stamped.zip", tmp_path / "bad.zip"
    assert shell.run("prove", GOLDEN, 28, "-o", made, "--time-stamp", tmp_path / "checkpoint.tsr")[0] == 0
    assert shell.run("check-proof", made, "--log-key", key, "--tsa-ca", tmp_path / "tsa.pem")[0] == 0
    (tmp_path / "checkpoint.tsr").write_bytes(b"x")
    assert shell.run("prove", GOLDEN, 28, "-o", bad, "--time-stamp", tmp_path / "checkpoint.tsr")[0] == 0
    status, _, complained = shell.run("check-proof", bad, "--log-key", key, "--tsa-ca", tmp_path / "tsa.pem")
    assert (status, "the time stamp is wrong" in complained) == (1, True)
