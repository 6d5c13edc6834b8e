"""Servers that are linked, and witnesses of each other: honest ones, killed ones, and one that shows two histories."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bussrv.journal.files import Files
from bussrv.journal.keys import generate, read_private
from bussrv.server.running.cosigning import directory
from bussrv.transparency.cosignatures import SigningKey, has_ml_dsa, signed_by
from bussrv.transparency.notes import COSIGNATURE, ED25519, ML_DSA_44, Note, VerifierKey, parse_key, parse_note
from bussrv.transparency.witnessing import CONFLICT, Rejection, Submission
from bussrv.witness.memory import WitnessMemory
from bussrv.witness.witness import Witness
from tests.admin.test_running import get
from tests.attacks.bystanders import Bystanders
from tests.forked import ForkedServer, refused
from tests.size import sized
from tests.witness.logs import Log
from tests.witness.test_witnessed import await_line, cosigned_sizes, events, told

pytestmark = pytest.mark.processes

ORIGIN = "hall.example/journal"
LISTEN = ("--witness-listen", "tcp:0:interface=127.0.0.1")


class Attic(ForkedServer):
    """A server that is a witness.

    :ivar keys: its keys as a witness.
    """

    def __init__(self, place: Path, *options: str) -> None:
        key = place / "witness.key"
        if not key.exists():
            generate(key)
        own = ("--witness-key", str(key), "--witness-name", "attic.example/w1", *LISTEN)
        super().__init__(place / "attic", (*own, "--server-id", "attic", "--link-allow", "127.0.0.1/32", *options))
        found = [match for line in self.lines if (match := re.search(r"witness on (\S+): verifier key (\S+)", line))]
        self.keys: list[VerifierKey] = [parse_key(each[2]) for each in found]
        self.asked_as = f"http://{found[0][1]} {found[0][2]}"


@contextmanager
def hall(place: Path, attic: Attic, journal: Path, *options: str) -> Iterator[ForkedServer]:
    """A server that is linked with the witness, which it asks."""
    key = place / "hall.key"
    if not key.exists():
        generate(key)
    own = ("--server-id", "hall", "--journal-key", str(key), "--journal-origin", ORIGIN)
    link = ("--link", f"tcp:127.0.0.1:{attic.port('objects')}")
    with ForkedServer(journal, (*own, *link, "--witness", attic.asked_as, *options)) as server:
        yield server


def run_hall(place: Path, attic: Attic, journal: Path, awaited: str) -> None:
    """Start it, and stop it as soon as the witness has answered."""
    with hall(place, attic, journal) as server:
        await_line(server, awaited)
        assert server.stop() == 0


def test_linked_servers_cosign_and_notice_two_histories(tmp_path: Path) -> None:
    journal, key = tmp_path / "hall", tmp_path / "hall.key"
    generate(key)
    log = SigningKey(ORIGIN, ED25519, read_private(key).seed).verifier.text
    options = ("--witness-for", log)
    with Attic(tmp_path, *options) as attic:
        assert [each.type for each in attic.keys] == [COSIGNATURE, *([ML_DSA_44] if has_ml_dsa() else [])]
        for _ in range(2):
            run_hall(tmp_path, attic, journal, "the witness attic.example/w1 cosigned")
        sizes = cosigned_sizes(journal, attic.keys[:1])
        assert len(sizes) == 2
        witnessed = [(each["witness"], each["size"]) for each in events(journal, "seal.witnessed")]
        assert witnessed == [("attic.example/w1", each) for each in sizes]
        attic.stop(signal.SIGKILL)
    assert told("checkpoint", str(journal), "--verifier-key") == log
    shutil.copytree(journal, tmp_path / "older")
    # What it has cosigned outlives a kill, and it goes on from there.
    with Attic(tmp_path, *options) as attic:
        # The last checkpoint of a server that has stopped is cosigned after its next start.
        for _ in range(2):
            run_hall(tmp_path, attic, journal, "the witness attic.example/w1 cosigned")
        assert told("verify", str(journal), "--witness-key", attic.keys[0].text)
        # Another version of the journal, made from an older copy: it has become longer than the first one.
        other = tmp_path / "older"
        for _ in range(2):
            with ForkedServer(other, ("--journal-key", str(key), "--server-id", "hall")) as server:
                assert server.stop() == 0
        run_hall(tmp_path, attic, other, "does not cosign: 422")
        await_line(attic, "not cosigned: the proof does not show")
        assert "422" in str(events(other, "seal.refused")[0]["message"])
        assert cosigned_sizes(other, attic.keys[:1]) == sizes
        attic.stop()


def test_the_admin_interface_gives_what_was_cosigned(tmp_path: Path) -> None:
    """After a restart, too, when nobody has cosigned anything yet."""
    key = tmp_path / "hall.key"
    generate(key)
    log = SigningKey(ORIGIN, ED25519, read_private(key).seed).verifier
    with Attic(tmp_path, "--witness-for", log.text, "--witness-max-body", "1000") as attic:
        for _ in range(2):
            with hall(tmp_path, attic, tmp_path / "hall") as server:
                await_line(server, "the witness attic.example/w1 cosigned")
                shown = get(server, "/api/v1/journal/checkpoint")[1]
                server.stop()
        cosigned = parse_note(shown["cosigned"].encode())
        assert signed_by(cosigned, log)
        assert signed_by(cosigned, attic.keys[0])
        metrics = get(attic, "/metrics")[1].decode()
        assert float(re.findall(r'bussrv_witness_answers_total\{status="200"\} (\S+)', metrics)[0]) >= 2
        asked = http.client.HTTPConnection(attic.asked_as.split()[0].removeprefix("http://"), timeout=20)
        asked.request("POST", "/add-checkpoint", bytes(1001))
        assert asked.getresponse().status == 413
        asked.close()
        metrics = get(attic, "/metrics")[1].decode()
        assert 'bussrv_witness_answers_total{status="413"} 1.0' in metrics
        assert 'bussrv_incidents_total{code="witness-max-body"} 1.0' in metrics
        attic.stop()
    # By now the last seal is another one.
    own = ("--server-id", "hall", "--journal-key", str(key))
    with ForkedServer(tmp_path / "hall", own) as server:
        again = get(server, "/api/v1/journal/checkpoint")[1]
        server.stop()
    assert again["cosigned"] == shown["cosigned"]
    assert not parse_note(again["checkpoint"].encode()).of(attic.keys[0])
    sealed = parse_note(shown["checkpoint"].encode())
    assert sealed.text != cosigned.text or sealed == cosigned


def test_a_reload_names_other_journals(tmp_path: Path) -> None:
    journal, key, file = tmp_path / "hall", tmp_path / "hall.key", tmp_path / "attic.toml"
    generate(key)
    log = SigningKey(ORIGIN, ED25519, read_private(key).seed).verifier.text
    file.write_text("")
    with Attic(tmp_path, "--config", str(file)) as attic:
        run_hall(tmp_path, attic, journal, f"does not cosign: 404 {ORIGIN} is not a log of this witness")
        file.write_text(f'witness-for = ["{log}"]\n')
        attic.process.send_signal(signal.SIGHUP)
        await_line(attic, "reloaded the configuration")
        run_hall(tmp_path, attic, journal, "the witness attic.example/w1 cosigned")
        attic.stop()
    assert directory(tmp_path / "attic").is_dir()


def test_a_flood_of_submissions_makes_no_client_wait(tmp_path: Path) -> None:
    """A stranger has a checkpoint that is signed, and repeats it as often as possible, as large as possible."""
    log = Log(entries=[b"%d" % number for number in range(9)])
    note = log.checkpoint(9)
    heavy = Submission(3, (bytes(32),) * 63, Note(note.text, note.signatures * 64)).encode()
    answered: list[int] = []

    def flood(port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        for _ in range(sized(40, 20)):
            connection.request("POST", "/add-checkpoint", heavy)
            answer = connection.getresponse()
            answer.read()
            answered.append(answer.status)
        connection.close()

    with Attic(tmp_path, "--witness-for", log.key.verifier.text) as attic, Bystanders(attic) as bystanders:
        port = int(attic.asked_as.partition(" ")[0].rpartition(":")[2])

        def attack() -> None:
            threads = [threading.Thread(target=flood, args=(port,)) for _ in range(10)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()

        bystanders.expect_no_wait(attack, bystanders.watch(0.5), 3)
    assert set(answered) <= {409, 503}
    assert 409 in answered


def test_a_server_that_cannot_be_a_witness_says_why(tmp_path: Path) -> None:
    key, log = tmp_path / "witness.key", Log().key.verifier.text
    generate(key)
    named = ("--witness-key", str(key), "--witness-name", "attic.example/w1")
    taken = WitnessMemory(directory(tmp_path / "bussrv-journal"))
    try:
        for options, reason in (
            (("--witness-for", log), "--witness-for: this server is no witness: set --witness-key and --witness-name"),
            (("--witness-key", str(key)), "--witness-key: a witness has a name: set --witness-name"),
            ((*named, "--journal", "off"), "is kept beside the journal, which is off"),
            ((*named, "--witness-listen", "nonsense:1"), "--witness-listen: 'nonsense:1' is not a stream endpoint"),
            ((*named, *LISTEN), "--witness-key: "),
            ((*named, "--witness-for", log, "--witness-listen", "off"), "set --witness-listen, too"),
            (("--witness-for", "nonsense"), "not a verifier key"),
            (("--witness-for", SigningKey("w", COSIGNATURE, bytes(32)).verifier.text), "is the key of a witness"),
            # The last one, since the key is in the manifest then.
            ((*named, "--journal-key", str(key)), "--witness-key: it is the key of the journal"),
        ):
            assert reason in refused(tmp_path, *options), options
    finally:
        taken.close()


class Killed(Files):
    """A disk whose process is killed as soon as the data is on it."""

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        os.kill(os.getpid(), signal.SIGKILL)


def test_killed_after_it_kept_and_before_it_answered(tmp_path: Path) -> None:
    """The log is told the size next time, and nothing smaller is ever cosigned."""
    hall, signing = Log(entries=[b"%d" % number for number in range(9)]), [SigningKey("w", COSIGNATURE, bytes(32))]
    keys = {hall.origin: [hall.key.verifier]}
    child = os.fork()
    if not child:
        try:
            Witness(keys, signing, WitnessMemory(tmp_path, files=Killed()), lambda: 1_000_000).cosign(
                hall.submission(0, 5)
            )
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    witness = Witness(keys, signing, WitnessMemory(tmp_path), lambda: 2_000_000)
    with pytest.raises(Rejection) as told_size:
        witness.cosign(hall.submission(0, 4))
    assert (told_size.value.status, told_size.value.size) == (CONFLICT, 5)
    assert len(witness.cosign(hall.submission(5, 5))) == len(witness.cosign(hall.submission(5, 6))) == 1
    witness.close()
