"""``bussrv journal checkpoint``, ``prove``, ``check-proof`` and ``verify --witness-key`` as an auditor meets them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.inspection import standalone_check
from bussrv.inspection.proving import Wanted, _check, run_prove
from bussrv.inspection.standalone_check import Wrong, check
from bussrv.journal.checkpoints import log_key
from bussrv.journal.keys import read_public
from bussrv.journal.leaves import JournalTree
from bussrv.journal.pseudonym_keys import forget, identities
from bussrv.journal.pseudonyms import Pseudonyms
from bussrv.transparency.cosignatures import has_ml_dsa
from bussrv.transparency.notes import NoteError, parse_key
from bussrv.transparency.proofs import Proof, parse_proof
from bussrv.witness.program import signing_keys
from tests.docs.golden import PLACE, WITNESS
from tests.inspection.shell import Shell
from tests.journal.support import make_entry, stamp
from tests.journal.test_witnesses import Server, honest

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


def run_alone(place: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The program in the bundle, without bussrv."""
    command = [sys.executable, "-I", "check.py", *arguments]
    variables = {**os.environ, **environment}
    return subprocess.run(command, cwd=place, env=variables, capture_output=True, text=True, check=False)


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


def bundled(path: Path) -> dict[str, bytes]:
    """The files of a bundle."""
    with zipfile.ZipFile(path) as bundle:
        return {name: bundle.read(name) for name in bundle.namelist()}


def test_who_was_forgotten_stays_so_and_others_are_not_shown(shell: Shell, tmp_path: Path) -> None:
    """Of a journal with pseudonyms: whoever has the key file proves the records of one person, and of nobody else."""
    journal, keys = tmp_path / "journal", tmp_path / "keys"
    people = {"anneliese": "192.0.2.7", "benedikt": "192.0.2.8"}
    server, pseudonyms = Server(journal), Pseudonyms(keys)
    for number in range(9):
        for name, address in people.items():
            event = ev.AuthSucceeded(actor=name, peer=f"{address}:{5000 + number}")
            server.writer.commit([make_entry([stamp(pseudonyms.hide(event))])])
            pseudonyms.flush()
    server.write()
    server.stop()
    pseudonyms.close()
    hidden = {each.identity: each.pseudonym for each in identities(keys)}

    def prove(about: str, output: str, *options: object) -> tuple[int, str]:
        status, _, said = shell.run("prove", journal, "--about", about, "-o", tmp_path / output, *options)
        return status, said

    # Nobody finds her without the key file, and with it what is proved still has pseudonyms only.
    assert "has no such record" in prove("anneliese", "none.zip")[1]
    assert prove("anneliese", "ann.zip", "--pseudonyms", keys)[0] == 0
    assert not (tmp_path / "none.zip").exists()
    files = bundled(tmp_path / "ann.zip")
    records = [json.loads(line) for line in files["records.jsonl"].splitlines()]
    assert [each["seq"] for each in records] == list(range(1, 18, 2))
    proved = [parse_proof(data) for name, data in files.items() if name.endswith(".tlog-proof")]
    assert len(proved) == 9
    shown = b"\0".join([*files.values(), *(each.extra or b"" for each in proved)])
    for each in ("anneliese", *people.values(), hidden["benedikt"], hidden[people["benedikt"]]):
        assert each.encode() not in shown, each
    assert hidden["anneliese"].encode() in shown
    # By her address, too.
    assert prove(people["anneliese"], "at.zip", "--pseudonyms", keys)[0] == 0
    assert bundled(tmp_path / "at.zip")["records.jsonl"] == files["records.jsonl"]
    # She is forgotten: nobody finds her any more, what was proved stays right, and leads to nobody.
    assert forget(keys, "actor", "anneliese")
    assert forget(keys, "peer", people["anneliese"])
    for name in ("anneliese", people["anneliese"]):
        status, said = prove(name, "late.zip", "--pseudonyms", keys)
        assert (status, "has no such record" in said) == (2, True)
    assert shell.run("check-proof", tmp_path / "ann.zip")[0] == 0
    assert shell.run("verify", journal)[0] == 0
    # Her pseudonym is still in the journal, and can be proved, but it is no name.
    assert prove(hidden["anneliese"], "p.zip", "--pseudonyms", keys)[0] == 0
    assert bundled(tmp_path / "p.zip")["records.jsonl"] == files["records.jsonl"]
    assert prove("benedikt", "ben.zip", "--pseudonyms", keys)[0] == 0


OPENSSL = """#!{python}
# As much of the program of OpenSSL 3.5 as check.py uses, by the OpenSSL in the library cryptography.
import sys
from pathlib import Path
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_der_public_key

words = sys.argv[1:]
assert words[:5] == ["pkeyutl", "-verify", "-pubin", "-keyform", "DER"], words
rest = [each for each in words[5:] if each != "-rawin"]
given = dict(zip(rest[::2], rest[1::2]))
key, message, signature = (Path(given[each]).read_bytes() for each in ("-inkey", "-in", "-sigfile"))
try:
    load_der_public_key(key).verify(signature, message)
except InvalidSignature:
    sys.exit("Signature Verification Failure")
print("Signature Verified Successfully")
"""


@pytest.mark.processes
def test_the_program_checks_ml_dsa_if_openssl_can(tmp_path: Path) -> None:
    """The form of a key and what it signs are held against a real OpenSSL 3.5 or newer: the one of the library."""
    if not has_ml_dsa():
        pytest.skip("the installed version of cryptography has no ML-DSA")
    keys = signing_keys("attic.example/w1", bytes(32), ml_dsa=True)
    server = honest(tmp_path / "journal", witnesses=keys)
    newest = server.checkpoints()[-1]
    records = JournalTree(server.directory)
    ((_, line),) = records.lines([3])
    proof = Proof(2, tuple(records.tree(newest.checkpoint.size).inclusion(2)), newest.note, line)
    (tmp_path / "one.tlog-proof").write_text(proof.encode())
    (tmp_path / "check.py").write_text(Path(standalone_check.__file__).read_text())
    assert newest.key is not None
    given = ("--log-key", newest.key.text, "one.tlog-proof")
    ed25519, ml_dsa = (("--witness-key", each.verifier.text) for each in keys)
    assert run_alone(tmp_path, *given, *ed25519).returncode == 0
    known = subprocess.run(["openssl", "list", "-signature-algorithms"], capture_output=True, text=True, check=True)
    if "ML-DSA-44" not in known.stdout:
        done = run_alone(tmp_path, *given, *ml_dsa)
        assert done.returncode == 1
        assert "OpenSSL cannot check the key of attic.example/w1; for ML-DSA-44 it has to be 3.5" in done.stderr
        # With the other key of the same witness, that is one witness.
        assert run_alone(tmp_path, *given, *ed25519, *ml_dsa).returncode == 0
        assert run_alone(tmp_path, *given, *ed25519, *ml_dsa, "--quorum", "2").returncode == 1
        program = tmp_path / "bin" / "openssl"
        program.parent.mkdir()
        program.write_text(OPENSSL.format(python=sys.executable))
        program.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = run_alone(tmp_path, *given, *ml_dsa, PATH=path)
    assert (done.returncode, done.stderr, "cosigned by 1 witnesses" in done.stdout) == (0, "", True)
    others = signing_keys("attic.example/w1", bytes([1]) * 32, ml_dsa=True)
    assert run_alone(tmp_path, *given, "--witness-key", others[1].verifier.text, PATH=path).returncode == 1
    text = (tmp_path / "one.tlog-proof").read_text()
    at = text.rindex("\n", 0, -1) + 60
    (tmp_path / "one.tlog-proof").write_text(text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :])
    done = run_alone(tmp_path, *given, *ml_dsa, PATH=path)
    assert (done.returncode, done.stderr) == (1, "WRONG: the signature of attic.example/w1 is wrong\n")


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
