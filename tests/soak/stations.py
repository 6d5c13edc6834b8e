"""A server of the soak: it is reloaded, killed and started again on the same journal."""

from __future__ import annotations

import datetime
import re
import signal
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

from bussrv import events as ev
from bussrv.client.tls import Tls
from bussrv.journal.keys import generate
from bussrv.policy.logins.tokens import PREFIX, token_line
from bussrv.policy.logins.users import SecretHash
from bussrv.testing.server import RunningServer
from tests.certificates import BEGIN, Authority
from tests.end_to_end.doomed import GONE, Told

OPTIONS = (
    *("--announce", "members", "--trusted-network", "127.0.0.0/8", "--link-allow", "127.0.0.1"),
    *("--max-link-delay", "0.2", "--handshake-timeout", "3", "--drain-seconds", "1", "--inbus-lease", "20"),
    *("--journal-segment-bytes", "4000000", "--journal-seal-interval", "5", "--journal-compress"),
    # Whoever does not read is cut after a second or two. What the budget of the journal holds back is not looked for.
    *("--max-outbound", "1000000", "--send-buffer", "65536"),
    *("--journal-session-burst", "4000000000", "--journal-total-burst", "16000000000"),
    # These have bounds that would take hours to reach. They are to be full before memory is measured.
    *("--max-seen", "1000", "--max-held-ids", "200", "--request-timeout", "20"),
)

MARK = "soaked"
"""In every secret."""

KNOWN = ("member", "office", "viewer", "flooder", "stalled", "observer", "temporary", "guest")
"""Users. ``temporary`` comes and goes with reloads, and what ``guest`` may provide does."""

TOKENED = ("flooder", "linked")
"""Users that have tokens instead of secrets."""

POLICY = """
[[rule]]
users = ["guest"]
send = "*"
{guest}

[[rule]]
users = {known}
provide = "*"
publish = "*"
watch = ["*", "bus/*"]
request = ["*", "bus/*"]
send = "*"
observe = "*"
address = "*"
admin = "read"

[[rule]]
users = ["device"]
formats = ["inbus"]
publish = "*"
watch = "*"

[[rule]]
users = ["linked", "localhost"]  # who dials has a token, who is dialed has the name in its certificate
link = ["hall", "cellar"]
tell = "*"
provide = "*"
publish = "*"
watch = "*"
request = "*"
send = "*"
observe = "*"
address = "*"
"""

RELOADED = "reloaded the configuration"
NOT_RELOADED = "the configuration cannot be used"
_LINK = re.compile(r" link to (\S+) at \S+ is (up|down)")
_PAST = datetime.timedelta(days=365)

_HASH = SecretHash(b"sixteen bytes...", bytes(32), 2, 8, 1)
"""One that takes no time: thousands log in."""

Change = Callable[["Station", Random], None]


def secret(user: str) -> str:
    """The secret of a user, or the token."""
    return f"{PREFIX}{MARK}-{user:-<40}"


class Station:
    """One server, its files, and what its clients were told.

    :param link: the endpoint that it dials; ``None``: it dials nobody.
    :ivar boot: how often it was started.
    :ivar told: what its clients were told of, which has to be in the journal.
    :ivar faults: clients that lost their connection while the server lived.
    :ivar reloads: what each reload has to come to, in order: whether it is used.
    :ivar downs: how often its link was made to break.
    """

    def __init__(self, name: str, directory: Path, authority: Authority, link: str | None = None) -> None:
        self.name = name
        self.journal = directory / name
        self.boot = 0
        self.told: list[Told] = []
        self.faults: list[str] = []
        self.reloads: list[bool] = []
        self.lines: list[str] = []
        self.downs = 0
        self.server: RunningServer
        self._authority = authority
        self._own = directory / f"{name}-port"
        self._link = link
        self._file = directory / f"{name}.toml"
        self._good = "max-services = 1000"
        self._serves = threading.Event()
        self._users, self._policy = directory / f"{name}-users", directory / f"{name}-policy.toml"
        self._tokens = directory / f"{name}-tokens"
        self._write_trusted(self._tokens, "".join(f"{token_line(user, secret(user), None)}\n" for user in TOKENED))
        self.know(KNOWN)
        self.let_guests("provide")
        self.key = directory / f"{name}-key"
        self.public = generate(self.key)
        self.files = authority.pair(self._own)
        self.tls = Tls(ca=authority.file, server_name="localhost")

    # Starting, killing, stopping.

    def start(self, *options: str) -> None:
        """Start it on its journal. Clients that wait for it are served."""
        self._write(self._good)
        port = f"ssl:0:interface=127.0.0.1:privateKey={self.files.key}:certKey={self.files.certificate}"
        asking = f"{port}:clientCA={self._authority.file}:clientCert=optional"
        ports = ("--objects", asking, "--business", port, "--spp", port, "--server-id", self.name)
        own = ("--config", str(self._file), "--journal-key", str(self.key))
        own += ("--auth", f"users:{self._users}", "--auth", f"tokens:{self._tokens}", "--policy", str(self._policy))
        own += ("--inbus-user", "127.0.0.0/8=device")
        self.server = RunningServer(self.journal, (*OPTIONS, *ports, *own, *options))
        self.boot += 1
        self._serves.set()

    def kill(self) -> None:
        """As if the machine had lost its power, but for the disk."""
        self._serves.clear()
        self.server.process.kill()
        assert self.server.wait() == -9
        self.lines += self.server.lines

    def stop(self, number: int) -> int:
        """Ask it to stop. :returns: the exit status."""
        self._serves.clear()
        status = self.server.stop(number)
        self.lines += self.server.lines
        return status

    def end(self) -> None:
        """It runs no longer, whatever happened."""
        self._serves.clear()
        if self.boot:
            self.server.process.kill()
            self.server.wait()

    @contextmanager
    def visit(self) -> Iterator[RunningServer]:
        """The server that runs, once one does. Nobody's connection ends before the server does."""
        self._serves.wait()
        boot, server = self.boot, self.server
        try:
            yield server
        except GONE as error:
            if boot == self.boot and self._serves.is_set():
                self.faults.append(f"{threading.current_thread().name}: {error!r}")

    def tell(self, kind: type[ev.Event], name: str) -> None:
        """A client was told that something is so."""
        self.told.append(Told(kind, name))

    # Links.

    def wait_for_link(self, state: str) -> None:
        """Wait until the log says that the link is ``up``, or ``down``."""
        while (said := _LINK.search(self.server.next_line())) is None or said[2] != state:
            pass

    # Reloads.

    def reload(self, random: Random) -> str:
        """Change something, and have it read again. :returns: what was changed.

        :raises AssertionError: what new clients are shown is not what the reload should have come to.
        """
        shown = self.certificate_shown()
        is_used = random.random() < 0.5
        name, change = random.choice(sorted(USED.items() if is_used else UNUSED.items()))
        change(self, random)
        self.reloads.append(is_used)
        self.server.process.send_signal(signal.SIGHUP)
        while RELOADED not in (line := self.server.next_line()) and NOT_RELOADED not in line:
            pass
        assert (RELOADED in line) is is_used, f"{self.name}, {name}: {line}"
        wanted = ssl.PEM_cert_to_DER_cert(self.files.certificate.read_text()) if is_used else shown
        assert self.certificate_shown() == wanted, f"{self.name}, {name}: the certificate is not the one it should be"
        if not is_used:
            self._write(self._good)
            self._users.write_text(self._good_users)
            self._policy.write_text(self._good_policy)
            self.new_certificate()
        return name

    def certificate_shown(self) -> bytes:
        """The certificate that the next client is shown."""
        return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(self.server.addresses["spp"]))

    def new_certificate(self) -> None:
        """Another key and another certificate are on the disk."""
        self._authority.pair(self._own)

    def set_limits(self, text: str) -> None:
        """The configuration says this from now on."""
        self._good = text
        self._write(text)

    def spoil(self, text: str) -> None:
        """The configuration says this for one reload."""
        self._write(f"{self._good}\n{text}\n")

    def know(self, users: Sequence[str]) -> None:
        """These are the users from now on; but some have tokens."""
        have_secrets = [user for user in users if user not in TOKENED]
        self._good_users = "".join(f"{user}:{_HASH.made_of(secret(user).encode())}\n" for user in have_secrets)
        self._write_trusted(self._users, self._good_users)

    def let_guests(self, action: str) -> None:
        """This is all that guests may do with services."""
        known = [user for user in KNOWN if user != "guest"]
        self._good_policy = POLICY.format(guest=f'{action} = "*"', known=known).replace("'", '"')
        self._write_trusted(self._policy, self._good_policy)

    def spoil_users(self) -> None:
        """The file of users has a line that is none, for one reload."""
        self._users.write_text(f"{self._good_users}eve\n")

    def spoil_policy(self, text: str) -> None:
        """The policy says this, too, for one reload."""
        self._policy.write_text(self._good_policy + text)

    @staticmethod
    def _write_trusted(path: Path, text: str) -> None:
        path.touch(0o600)
        path.write_text(text)

    def expire(self) -> None:
        """The certificate on the disk has expired."""
        self._authority.pair(self._own, begin=BEGIN, end=BEGIN + _PAST)

    def mix_up(self) -> None:
        """The key on the disk is that of another certificate."""
        certificate = self.files.certificate.read_bytes()
        self._authority.pair(self._own)
        self.files.certificate.write_bytes(certificate)

    def _write(self, text: str) -> None:
        link = "" if self._link is None else f'link = ["{self._link}"]\n'
        self._file.write_text(link + text)


def _limits(station: Station, random: Random) -> None:
    station.set_limits(
        f"max-services = {random.randint(1000, 2000)}\nmax-patterns = {random.randint(20, 300)}\n"
        f"max-requests-per-asker = {random.randint(100, 1000)}\nstrict = {random.choice(['true', 'false'])}"
    )


def _certificate(station: Station, random: Random) -> None:
    station.new_certificate()


def _nothing(station: Station, random: Random) -> None:
    """The same again."""


def _users(station: Station, random: Random) -> None:
    station.know([user for user in KNOWN if user != "temporary" or random.random() < 0.5])


def _policy(station: Station, random: Random) -> None:
    station.let_guests(random.choice(["provide", "watch"]))


USED: dict[str, Change] = {
    "limits": _limits,
    "certificate": _certificate,
    "users": _users,
    "policy": _policy,
    "nothing": _nothing,
}
"""Changes that are used."""

UNUSED: dict[str, Change] = {
    "half a file": lambda station, _: station.spoil("max-links = "),
    "a limit of 0": lambda station, _: station.spoil("max-links = 0"),
    "an unknown option": lambda station, _: station.spoil("no-such = 1"),
    "half a user": lambda station, _: station.spoil_users(),
    "half a policy": lambda station, _: station.spoil_policy("[[rule]]\nusers = "),
    "an unknown action": lambda station, _: station.spoil_policy('[[rule]]\nfly = ["*"]\n'),
    "an expired certificate": lambda station, _: station.expire(),
    "a key of another certificate": lambda station, _: station.mix_up(),
    "no certificate": lambda station, _: station.files.certificate.unlink(),
    "half a certificate": lambda station, _: station.files.certificate.write_bytes(
        station.files.certificate.read_bytes()[:300]
    ),
}
"""Changes that are refused: nothing else changes."""
