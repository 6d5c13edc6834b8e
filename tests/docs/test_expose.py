"""The page on letting other machines in: its commands and its script, as written, except the ports."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509

from bussrv import events as ev
from bussrv.cli.admin_client import AdminClient
from bussrv.journal.reading import read_journal
from bussrv.starter.texts import USERS
from bussrv.testing.server import PATIENCE
from tests.docs.commands import says
from tests.docs.pages import blocks
from tests.docs.test_how_to import ENVIRONMENT, commands, run
from tests.forked import ForkedServer
from tests.logins import quick_secrets

pytestmark = pytest.mark.processes

PAGE = "docs/how-to/expose.md"
((INIT, MADE),), ((CHECK, CHECKED), (START, _)), ((SUB, _), (PUB, _)), RENEW, ((JOIN, JOINED),) = map(
    commands, blocks(PAGE, "console")
)


class Started:
    """A server that was started by a command of the page.

    :ivar ports: where each wire format listens.
    """

    def __init__(self, place: Path) -> None:
        self.ports: dict[str, str] = {}
        self.said = ""
        self._process = subprocess.Popen(
            shlex.split(START), cwd=place, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said += line
            listening = re.search(r"(\w+) on (?:ssl|tcp) [0-9.]+:(\d+)$", line)
            if listening:
                self.ports[listening[1]] = listening[2]
            if "bussrv is ready" in line:
                return
        pytest.fail(self.said)

    def stop(self) -> None:
        self._process.terminate()
        self.said += self._process.communicate(timeout=PATIENCE)[0]


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, str]:
    """The place of the files, and what was said."""
    said = run(INIT, tmp_path)
    file = tmp_path / "hall" / "bussrv.toml"
    file.write_text(re.sub(r"ssl:\d+", "ssl:0", file.read_text()) + "admin = 0\n")
    return tmp_path, said


def test_a_profile_of_a_second_machine(made: tuple[Path, str], tmp_path: Path) -> None:
    place, said = made
    secrets = quick_secrets(place / "hall" / USERS, said)
    server = Started(place)
    try:
        home = tmp_path / "second" / "bussrv"
        home.mkdir(parents=True)
        shutil.copy(place / "hall" / "ca.pem", home)
        profile = (place / "hall" / "profiles" / "ann.toml").read_text()
        for name, value in (("7890", server.ports["objects"]), ("hall.example", "localhost"), ("…", secrets["ann"])):
            profile = profile.replace(name, value, 1)
        (home / "profiles.toml").write_text(profile)
        (home / "profiles.toml").chmod(0o600)
        environment = {**ENVIRONMENT, "XDG_CONFIG_HOME": str(home.parent)}
        watching = subprocess.Popen(
            ["sh", "-c", f"exec {SUB} --count 1 --format objects"], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(100):
            ran = subprocess.run(["sh", "-c", PUB], env=environment, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, ran.stderr
            if watching.poll() is not None:
                break
        heard = watching.communicate(timeout=PATIENCE)[0]
    finally:
        server.stop()
    assert "open" in heard


def test_two_users_talk_within_a_minute(made: tuple[Path, str]) -> None:
    place, said = made
    assert says(said, MADE), said
    assert says(run(CHECK, place), CHECKED)
    secrets = quick_secrets(place / "hall" / USERS, said)
    (script,) = blocks(PAGE, "python")
    server = Started(place)
    try:
        # The port first: four digits may stand in a secret, too.
        script = script.replace("7890", server.ports["objects"])
        for secret in (secrets["ann"], secrets["ben"]):
            script = script.replace('"…"', f'"{secret}"', 1)
        ran = subprocess.run(
            [sys.executable, "-c", script], cwd=place, env=ENVIRONMENT, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        operator = AdminClient(
            port=int(server.ports["admin"]), user="operator", secret=secrets["operator"], timeout=PATIENCE
        )
        permitted = operator.get("/server")["permissions"]
    finally:
        server.stop()
    assert (ran.stdout, ran.stderr) == ("door\nb'open, please'\nb'open'\n", ""), server.said
    assert permitted == {"read": True, "write": True}
    assert "WARNING" not in server.said
    records = list(read_journal(place / "hall" / "journal"))
    assert {each.event.actor for each in records if isinstance(each.event, ev.AuthSucceeded)} == {"ann", "ben"}
    assert not any(isinstance(each.event, ev.AccessDenied) for each in records)
    written = server.said.encode() + b"".join(each.read_bytes() for each in place.rglob("*") if each.is_file())
    assert not any(secret.encode() in written for secret in secrets.values())


def test_the_sentences_of_a_refused_start(tmp_path: Path) -> None:
    (wanted,) = blocks(PAGE, "text")
    with pytest.raises(RuntimeError) as refused:
        ForkedServer("off", ["--objects", "tcp:7890"])
    said = [line for line in str(refused.value).splitlines() if line.startswith("bussrv: ")]
    assert "".join(f"{line}\n" for line in said) == wanted


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_another_certificate(made: tuple[Path, str]) -> None:
    place, _ = made

    def certificate() -> x509.Certificate:
        return x509.load_pem_x509_certificate((place / "hall" / "server.pem").read_bytes())

    before = certificate()
    for command, _ in RENEW:
        run(command, place)
    after = certificate()
    assert before.serial_number != after.serial_number
    names = x509.SubjectAlternativeName
    assert before.extensions.get_extension_for_class(names) == after.extensions.get_extension_for_class(names)
    assert says(run(CHECK, place), CHECKED)


def test_a_server_with_an_uplink(short_path: Path) -> None:
    said = run(JOIN, short_path)
    assert says(said, JOINED), said
    assert says(run(CHECK.replace("hall", "attic"), short_path), CHECKED.replace("hall", "attic"))
