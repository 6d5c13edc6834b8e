"""The golden journals of ``docs/reference/journal-format``, written with fixed clocks, ids and keys.

``PYTHONPATH=. python -m tests.docs.golden`` writes them anew. ``whole`` is the journal of a server that was started
three times: it crashed, was stopped, and is running. ``salvaged`` is one that somebody had changed.

``tests/vectors/journals`` has what older servers wrote: ``v2``, ``v3`` and ``v2-then-v3``, as they are and never to be
changed, and ``v2-then-v4``, which goes on with ``v2/crashed`` and is written anew with the others.
"""

from __future__ import annotations

import errno
import shutil
import sys
from hashlib import sha256
from pathlib import Path

from twisted.internet.defer import Deferred

from bussrv import events as ev
from bussrv.journal.batch import BatchWriter, make_entry
from bussrv.journal.checkpoints import read_checkpoint
from bussrv.journal.files import Files
from bussrv.journal.keys import PrivateKey
from bussrv.journal.manifest import MANIFEST_NAME, Cosigned, Manifest
from bussrv.journal.manifest_file import ManifestFile, read_manifest
from bussrv.journal.record import Stamped, parse_time
from bussrv.journal.recovery import Damaged, recover
from bussrv.journal.salvage import salvage
from bussrv.journal.sealing import MARKER, Sealer
from bussrv.journal.segment import segment_name
from bussrv.journal.upkeep import Upkeep, UpkeepPolicy
from bussrv.registry.state.fold import RegistryFold
from bussrv.transparency.cosignatures import SigningKey
from bussrv.transparency.notes import COSIGNATURE
from bussrv.values import InEffect, ModeInterest, PolicyRule, PolicyText, RuleInterest

PLACE = Path(__file__).parents[2] / "docs" / "reference" / "journal-format"
OLDER = Path(__file__).parents[1] / "vectors" / "journals"
UPGRADED = OLDER / "v2-then-v4"
STEP = 1_001
"""Microseconds from one record to the next."""

DAY = 86_400_000_000
"""Microseconds."""

TORN = b'{"v":4,"prev":"9'


LIMITS = {"max-payload": 8_388_608, "max-services": 1000}
POLICY = PolicyText(
    name="policy.toml",
    digest=sha256(b"bussrv golden journal, policy").hexdigest(),
    groups={"family": ("anna", "ben")},
    rules=(
        PolicyRule(line=4, groups=("family",), clauses=(("publish", "!gate", 6), ("publish", "*", 6))),
        PolicyRule(
            line=8, users=("anonymous",), networks=("192.168.7.0/24", "unix"), formats=("inbus",),
            clauses=(("watch", "doorbell", 12),),
        ),
    ),
)  # fmt: skip


def key(sentence: str) -> PrivateKey:
    """A throw-away key: whoever reads the sentence has it."""
    return PrivateKey(sha256(sentence.encode()).digest())


FIRST_KEY = key("bussrv golden journal, first key")
SECOND_KEY = key("bussrv golden journal, second key")
WITNESS = SigningKey("witness.example/w1", COSIGNATURE, key("bussrv golden journal, witness").seed)


class GoldenClock:
    """Goes on when it is told to."""

    def __init__(self, time: str, mono: int) -> None:
        self._utc = parse_time(time)
        self._mono = mono

    def utc(self) -> int:
        return self._utc

    def mono(self) -> int:
        return self._mono

    def advance(self, micros: int) -> None:
        self._utc += micros
        self._mono += micros


class FullDisk(Files):
    """Files that cannot be written to while the disk is full."""

    is_full = False

    def write(self, descriptor: int, data: bytes) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(descriptor, data)


class Boot:
    """A run of a server, as far as its journal knows of it."""

    def __init__(
        self,
        directory: Path,
        server: str,
        boot: str,
        clock: GoldenClock,
        key: PrivateKey | None = None,
        **policy: object,
    ) -> None:
        directory.mkdir(exist_ok=True)
        self.boot = boot
        self.disk = FullDisk()
        self.clock = clock
        fold = RegistryFold()
        try:
            recovered = recover(directory, fold)
        except Damaged as error:
            fold = RegistryFold()
            recovered = salvage(directory, error.damage, fold)
        self.fold = fold
        self.recovered = recovered
        manifest = read_manifest(directory / MANIFEST_NAME)
        sealer = Sealer(directory, server, manifest=manifest, key=key, clock=clock)
        self._upkeep = Upkeep(
            directory,
            sealer,
            manifest=manifest,
            unsealed=recovered.unsealed,
            policy=UpkeepPolicy(**policy),
            clock=clock,
            later=lambda put_away: put_away(),
        )
        self._writer = BatchWriter(
            directory,
            server,
            boot,
            recovered=recovered,
            fold=fold,
            sync="always",
            clock=clock,
            last_seal=lambda: sealer.last_hash,
            files=self.disk,
        )
        self._upkeep.begin()

    def __call__(self, event: ev.Event, *, asked: bool = True) -> None:
        """Something happens; if the disk fails, it is refused if somebody ``asked`` for it, and kept otherwise."""
        entry = make_entry([Stamped(self.clock.utc(), self.clock.mono(), event)], Deferred() if asked else None)
        try:
            self._writer.commit([entry])
        except OSError:
            assert self.disk.is_full
        self._upkeep.do_due_work(self._writer)
        self.clock.advance(STEP)

    def stop(self) -> None:
        self(ev.ServerStopped())
        self._writer.close()
        self._upkeep.do_due_work(self._writer, at_end=True)


def write_whole(directory: Path) -> None:
    """A journal in which every line is as it should be."""
    bell = {"protocol": "inbus", "session": "2c40a7d91e05.1", "routing_id": "90ab12cd34ef56ab78cd90ef"}
    bell["peer"] = "192.168.7.20:7001"
    _crashed_boot(directory, bell)
    _stopped_boot(directory, bell)
    found = read_manifest(directory / MANIFEST_NAME)
    manifest = ManifestFile(directory / MANIFEST_NAME, found, FIRST_KEY)
    manifest.append([witnessed(found, parse_time("2026-11-20T18:31:03.000000Z"), "hall")])
    manifest.introduce(SECOND_KEY.public, FIRST_KEY, time=parse_time("2026-11-20T19:00:00.000000Z"), server="hall")
    _running_boot(directory, bell)


def witnessed(manifest: Manifest, time: int, server: str) -> Cosigned:
    """The cosignature of a witness under the newest checkpoint."""
    *_, (sealed, seal) = manifest.checkpoints.items()
    _, note = read_checkpoint(seal.checkpoint or "")
    return Cosigned(time, server, sealed, WITNESS.sign(note.text, time // 1_000_000).line)


def _crashed_boot(directory: Path, bell: dict[str, str]) -> None:
    say = Boot(directory, "hall", "2c40a7d91e05", GoldenClock("2026-11-18T06:00:00.000000Z", 11_000_000), FIRST_KEY)
    formats = {"objects": "tcp 127.0.0.1:7890", "inbus": "udp 192.168.7.1:7222"}
    say(ev.ServerStarted(version="1.0.0", formats=formats, in_effect=InEffect(limits=LIMITS)))
    say(ev.SessionOpened(persistent=True, **bell), asked=False)
    say(ev.SubscriptionAdded(service="doorbell", options={"version": 1}, **bell))
    panel = {"protocol": "objects", "session": "2c40a7d91e05.2", "routing_id": "panel", "peer": "127.0.0.1:40001"}
    say(ev.SessionOpened(**panel), asked=False)
    say(ev.ServiceRegistered(service="doorbell", **panel))
    with (directory / segment_name(1)).open("ab") as segment:
        segment.write(TORN)


def _stopped_boot(directory: Path, bell: dict[str, str]) -> None:
    clock = GoldenClock("2026-11-20T18:30:00.500000Z", 7_000_000)
    say = Boot(directory, "hall", "8f63b05d2a71", clock, FIRST_KEY, compress=True)
    formats = {"objects": "tcp 127.0.0.1:7890", "spp": "tcp [::1]:3002"}
    say(ev.ServerStarted(version="1.0.0", formats=formats, in_effect=InEffect(asks=True, limits=LIMITS)))
    say(ev.ServerRecovered(sessions_closed=1, torn_bytes=say.recovered.torn_bytes), asked=False)
    panel = {"protocol": "objects", "session": "2c40a7d91e05.2", "routing_id": "panel", "peer": "127.0.0.1:40001"}
    crashed = {"reason": "server-crashed", **panel}
    say(ev.ServiceUnregistered(service="doorbell", **crashed), asked=False)
    say(ev.SessionClosed(duration=217_800_500_000, **crashed), asked=False)
    say(ev.SubscriptionRenewed(service="doorbell", options={"version": 2}, **bell))
    say(ev.SubscriptionRefused(protocol="inbus", peer="192.168.7.66", service="doorbell", reason="foreign-address"))
    lamp = {"protocol": "inbus", "session": "8f63b05d2a71.1", "routing_id": "c0ffee", "peer": "192.168.7.21:7001"}
    say(ev.SessionOpened(persistent=True, **lamp), asked=False)
    say(ev.SubscriptionAdded(service="light", options={"version": 2}, **lamp))
    watcher = {"protocol": "spp", "session": "8f63b05d2a71.2", "routing_id": "77aa", "peer": "[::1]:40000"}
    say(ev.SessionOpened(**watcher), asked=False)
    strange = 'a "quoted" \\ name \a 🔒'
    failed = {"method": "password", "reason": "bad-credentials"}
    say(ev.AuthFailed(claimed=strange, **failed, **watcher), asked=False)
    say(ev.AuthSucceeded(actor="ben", method="password", **watcher), asked=False)
    say(ev.SubscriptionAdded(service="doorbell", actor="ben", **watcher))
    (directory / MARKER).touch()
    clock.advance(62_000_000)
    say(ev.ConfigReloaded(in_effect=InEffect(asks=True, limits=LIMITS)), asked=False)
    gone = {"reason": "server-stopped", "actor": "ben", **watcher}
    say(ev.SessionClosed(duration=62_005_005, objects_out=2, bytes_out=61, **gone), asked=False)
    say.stop()


def _running_boot(directory: Path, bell: dict[str, str]) -> None:
    clock = GoldenClock("2026-11-21T14:02:03.123456Z", 81_230_001)
    say = Boot(directory, "hall", "5f1c2ab94e07", clock, SECOND_KEY, retain_age=3 * 86400.0)
    formats = {"objects": "tcp 127.0.0.1:7890", "inbus": "udp 192.168.7.1:7222"}
    say(ev.ServerStarted(version="1.0.0", formats=formats, in_effect=InEffect(policy=POLICY, limits=LIMITS)))
    peer = {"protocol": "objects", "session": "5f1c2ab94e07.1", "peer": "127.0.0.1:51234"}
    say(ev.SessionOpened(routing_id="4be29f1d0c3a5d6e7f809112", **peer), asked=False)
    door = {"routing_id": "hall-door", "claimed": "anna", **peer}
    about = {"name": "door panel", "role": "client", "vocabulary": "objects", "routing_ids": ("hall", "doors")}
    say(ev.SessionIdentified(**about, **door))
    modes = ModeInterest(receive="no_echo", types=("text/*", "image/png"))
    say(ev.SubscriptionAdded(interest=modes, **door))
    say(ev.SubscriptionRemoved(reason="replaced", **door))
    say(ev.SubscriptionAdded(interest=RuleInterest(rules=("*", ("!image/*", "@door*"), "!#debug")), **door))
    say(ev.ServiceRegistered(service="Türklingel", **door))
    say(ev.ServiceRefused(service="bus/clock", reason="reserved-name", suppressed=12, **door))
    cellar = {"protocol": "objects", "routing_id": "cellar", "peer": "10.0.0.2:7890"}
    say(ev.LinkUp(**cellar), asked=False)
    far = {"protocol": "objects", "session": "5f1c2ab94e07.2", "routing_id": "cellar-door", "peer": "10.0.0.2:7890"}
    say(ev.SessionOpened(home="cellar", **far), asked=False)
    say.disk.is_full = True
    say(ev.ServiceUnregistered(service="Türklingel", **door))
    say(ev.LinkDown(reason="connection-lost", **cellar), asked=False)
    say(ev.SessionClosed(duration=3_003, reason="link-lost", **far), asked=False)
    clock.advance(1_000_000)
    say.disk.is_full = False
    say(ev.ServiceUnregistered(service="Türklingel", **door))
    say(ev.SubscriptionRemoved(service="doorbell", reason="lease-expired", **bell), asked=False)
    clock.advance(61_000_000)
    say(ev.LimitReached(limit="max-outbound", value=16_777_216, reason="slow-consumer", **door), asked=False)
    counters = {"objects_in": 3, "objects_out": 4, "bytes_in": 500, "bytes_out": 6000}
    say(ev.SessionClosed(duration=62_015_015, reason="slow-consumer", **counters, **door), asked=False)


def write_salvaged(directory: Path) -> None:
    """A journal without a key, of which a record was changed and behind which a new chain was begun."""
    say = Boot(directory, "barn", "c19e44f7a803", GoldenClock("2026-11-19T08:00:00.000000Z", 5_000_000))
    say(ev.ServerStarted(version="1.0.0", formats={"objects": "tcp 127.0.0.1:7890"}))
    carl = {"protocol": "objects", "session": "c19e44f7a803.1", "routing_id": "carl", "peer": "127.0.0.1:50001"}
    say(ev.SessionOpened(**carl), asked=False)
    say(ev.ServiceRegistered(service="gate", **carl))
    say(ev.SessionClosed(duration=2_002, reason="client-closed", **carl), asked=False)
    say.stop()
    path = directory / segment_name(1)
    path.chmod(0o640)
    path.write_bytes(path.read_bytes().replace(b'"service":"gate"', b'"service":"date"'))
    say = Boot(directory, "barn", "e77a0b3c5d12", GoldenClock("2026-11-21T09:15:00.000000Z", 3_000_000))
    damage = say.recovered.salvaged
    assert damage is not None
    say(ev.ServerStarted(version="1.0.0", formats={"objects": "tcp 127.0.0.1:7890"}))
    say(ev.JournalSalvaged(segment=damage.segment, line=damage.line, message=damage.reason), asked=False)
    say(ev.ServerRecovered(sessions_closed=0), asked=False)
    changed = InEffect(asks=True, policy=POLICY, limits={**LIMITS, "max-services": 2000})
    say(ev.ConfigReloaded(changed=("link", "max-services"), in_effect=changed), asked=False)
    wrong = "/etc/bussrv/bussrv.toml:3: max-links: 0 is not a whole number of 1 or more"
    say(ev.ConfigReloadFailed(message=wrong), asked=False)
    ben = {"protocol": "inbus", "actor": "ben", "peer": "127.0.0.1", "reason": "not-allowed"}
    say(ev.AccessDenied(action="publish", target="gate", rule="policy.toml:12: publish !gate", **ben), asked=False)
    used = {"protocol": "objects", "actor": "ben", "peer": "127.0.0.1:50002"}
    say(ev.AccessUsed(action="publish", target="gate", count=7, suppressed=2, **used), asked=False)
    page = {"protocol": "objects", "session": "e77a0b3c5d12.1", "routing_id": "dora", "peer": "127.0.0.1:50002"}
    say(ev.SessionOpened(**page), asked=False)
    say(ev.SubscriptionAdded(service="barn/#", pattern=True, **page))
    say(ev.SessionClosed(duration=2_002, reason="closed-by-operator", **page), asked=False)
    ann = {"protocol": "admin", "actor": "ann", "peer": "127.0.0.1:50009"}
    say(ev.AdminAction(action="close-session", target="e77a0b3c5d12.1", **ann))
    _durable_session(say)
    net = {"protocol": "objects", "routing_id": "uplink/office", "peer": "unix"}
    say(ev.LinkGap(origin="attic", service="gate", lost=12, reason="objects-lost", **net), asked=False)
    clock = {"protocol": "objects", "routing_id": "attic", "peer": "10.0.0.2:7890"}
    say(ev.LinkForgotten(routing_id="barn"), asked=False)
    say(ev.LinkClock(ahead=-3_000_125, doubt=250, **clock), asked=False)
    seen = {"incident": "a1b2c3d4e5f6", "kind": "guessing", "since": 1_795_270_000_000_000}
    say(ev.IncidentAcknowledged(note="ann changed her secret", **seen, **ann))
    say(ev.SealWitnessed(witness="attic.example/w1", size=24), asked=False)
    say(ev.SealRefused(witness="barn.example/w2", size=24, message="404 hall is not a log"), asked=False)
    say.stop()


def _durable_session(say: Boot) -> None:
    """Its client goes, and comes back over a connection that has a session of its own first."""
    about = {"protocol": "mqtt", "actor": "eva"}
    phone = {"session": "e77a0b3c5d12.2", "routing_id": "5b7c9d0e1f2a3b4c5d6e7f80", **about}
    first, then = "127.0.0.1:50003", "127.0.0.1:50004"
    say(ev.SessionOpened(persistent=True, expiry=DAY, peer=first, **phone), asked=False)
    say(ev.SubscriptionAdded(service="gate", options={"qos": 1}, peer=first, **phone))
    say(ev.SessionLeft(until=say.clock.utc() + DAY, reason="connection-lost", peer=first, **phone), asked=False)
    say.clock.advance(90_000_000)
    own = {"session": "e77a0b3c5d12.3", "routing_id": "5b7c9d0e1f2a3b4c5d6e7f81", "peer": then}
    say(ev.SessionOpened(protocol="mqtt", **own), asked=False)
    say(ev.AuthSucceeded(method="password", **about, **own), asked=False)
    say(ev.SessionResumed(expiry=2 * DAY, peer=then, **phone), asked=False)
    say(ev.SessionClosed(duration=3_003, reason="joined-session", **about, **own), asked=False)
    say(ev.SessionLeft(until=say.clock.utc() + 2 * DAY, reason="server-stopped", peer=then, **phone), asked=False)


def write_upgraded(directory: Path) -> None:
    """A journal of schema version 2, which this program found after a crash and went on with."""
    shutil.copytree(OLDER / "v2" / "crashed", directory)
    clock = GoldenClock("2026-11-22T07:00:00.000000Z", 4_000_000)
    say = Boot(directory, "attic", "a1d20b3c4e5f", clock, SECOND_KEY)
    say(ev.ServerStarted(version="2.0.0", formats={"objects": "tcp 127.0.0.1:7890", "spp": "tcp [::1]:3002"}))
    left = [each for each in say.fold.state.sessions.values() if not each.persistent]
    say(ev.ServerRecovered(sessions_closed=len(left)), asked=False)
    for session in left:
        crashed = {"reason": "server-crashed", **session.about()}
        for name in sorted(say.fold.state.provided_by(session.id)):
            say(ev.ServiceUnregistered(service=name, **crashed), asked=False)
        say(ev.SessionClosed(duration=clock.utc() - session.opened, **crashed), asked=False)
    about = {"protocol": "objects", "session": "a1d20b3c4e5f.1", "peer": "127.0.0.1:51300"}
    say(ev.SessionOpened(routing_id="0c3a5d6e7f8091124be29f1d", **about), asked=False)
    door = {**about, "routing_id": "hall-door", "claimed": "anna"}
    say(ev.SessionIdentified(name="door panel", vocabulary="objects", **door))
    say(ev.SubscriptionAdded(interest=ModeInterest(), **door))
    watcher = {"protocol": "spp", "session": "a1d20b3c4e5f.2", "routing_id": "88bc", "peer": "[::1]:40003"}
    say(ev.SessionOpened(**watcher), asked=False)
    say(ev.AuthFailed(claimed="ben", method="password", reason="bad-credentials", **watcher), asked=False)
    say(ev.AuthSucceeded(actor="ben", method="password", **watcher), asked=False)
    for gone in ({**watcher, "actor": "ben"}, door):
        say(ev.SessionClosed(duration=2_002, reason="client-closed", **gone), asked=False)
    page = {"protocol": "websocket", "session": "a1d20b3c4e5f.3", "routing_id": "7e3f", "peer": "127.0.0.1:51301"}
    say(ev.SessionOpened(**page), asked=False)
    # It got a handshake, and no object.
    handshake = {"bytes_in": 160, "bytes_out": 129}
    say(ev.SessionClosed(duration=1_001, reason="client-closed", **handshake, **page), asked=False)
    say.stop()


def write(place: Path) -> None:
    """Write everything below ``place``."""
    write_whole(place / "whole")
    write_salvaged(place / "salvaged")
    for name, private in (("first", FIRST_KEY), ("second", SECOND_KEY)):
        (place / f"{name}.pub").write_bytes(public_pem(private))


def public_pem(private: PrivateKey) -> bytes:
    """The public half, as ``bussrv journal keygen`` writes it."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return private.load().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def private_pem(private: PrivateKey) -> bytes:
    """The private half, as ``bussrv journal keygen`` writes it."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return private.load().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


if __name__ == "__main__":
    for old in ("whole", "salvaged"):
        shutil.rmtree(PLACE / old, ignore_errors=True)
    write(PLACE)
    shutil.rmtree(UPGRADED, ignore_errors=True)
    write_upgraded(UPGRADED)
    sys.stdout.write(f"written: {PLACE}\n")
