"""Pseudonyms: hidden and revealed, forgotten for good, whatever the disk and others do to the key file meanwhile."""

import errno
import json
import os
import stat
import threading
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bussrv import events as ev
from bussrv.addresses import format_address, host_of
from bussrv.errors import JournalError
from bussrv.journal.files import Files
from bussrv.journal.pseudonym_keys import check_key_file, forget, identities
from bussrv.journal.pseudonyms import Pseudonyms, is_pseudonym
from bussrv.values import InEffect, PolicyRule, PolicyText
from tests.journal.strategies import events
from tests.tables import each_row

PATIENCE = 20.0

hosts = st.ip_addresses().map(str) | st.text(max_size=12) | st.sampled_from(["fe80::1%eth0", "[::1]", "a:b:80", ":80"])
peers = hosts | st.builds(format_address, hosts, st.integers(0, 65535))
actors = st.text(max_size=12) | st.from_regex(r"\A~[0-9a-f]{24}\Z")
somebody = st.tuples(st.just("actor"), actors) | st.tuples(st.just("peer"), peers)


class FaultyFiles(Files):
    """Files of which what is in ``failing`` fails; a write leaves ``written`` bytes behind then."""

    def __init__(self):
        self.failing = set()
        self.written = 0
        self.done = []

    def _do(self, name):
        self.done.append(name)
        if name in self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def write(self, descriptor, data):
        if "write" in self.failing:
            super().write(descriptor, data[: self.written])
        self._do("write")
        super().write(descriptor, data)

    def sync(self, descriptor):
        self._do("sync")
        super().sync(descriptor)

    def truncate(self, descriptor, size):
        self._do("truncate")
        super().truncate(descriptor, size)

    def rename(self, path, target):
        self._do("rename")
        super().rename(path, target)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "keys"


@pytest.fixture
def opened():
    return []


@pytest.fixture
def open_(path, opened):
    """Opens the key file, as often as a test likes."""

    def open_(files=None):
        opened.append(Pseudonyms(path, files or Files()))
        return opened[-1]

    yield open_
    for each in opened:
        each.close()


@contextmanager
def fresh_pseudonyms():
    """For tests that are run with many examples."""
    with TemporaryDirectory() as directory:
        path = Path(directory, "keys")
        pseudonyms = Pseudonyms(path)
        try:
            yield path, pseudonyms
        finally:
            pseudonyms.close()


@contextmanager
def reopened(path):
    pseudonyms = Pseudonyms(path)
    try:
        yield pseudonyms
    finally:
        pseudonyms.close()


def names(path):
    return [each.identity for each in identities(path)]


def revealed(path, kind, text):
    with reopened(path) as pseudonyms:
        return pseudonyms.reveal_text(kind, text)


# Hiding and revealing.


@settings(deadline=None)
@given(events, actors | st.none(), actors | st.none(), peers | st.none())
def test_this_server_and_the_next_can_reveal_what_is_hidden(event, actor, claimed, peer):
    event = replace(event, actor=actor, claimed=claimed, peer=peer)
    if isinstance(event, (ev.ServerStarted, ev.ConfigReloaded)):
        # Rules lose their digest, and networks the length of their prefix; see the test of the rules in effect.
        event = replace(event, in_effect=None)
    with fresh_pseudonyms() as (path, pseudonyms):
        hidden = pseudonyms.hide(event)
        assert pseudonyms.hide(event) == hidden
        assert pseudonyms.reveal(hidden) == event
        assert replace(hidden, actor=actor, claimed=claimed, peer=peer) == event
        assert not actor or is_pseudonym(hidden.actor)
        assert not claimed or is_pseudonym(hidden.claimed)
        assert (hidden.actor == hidden.claimed) is (actor == claimed)
        pseudonyms.flush()
        with reopened(path) as another:
            assert another.reveal(hidden) == event
            assert another.hide(event) == hidden


@settings(deadline=None)
@given(st.lists(somebody.filter(lambda each: each[1]), unique=True, max_size=8))
def test_no_two_have_the_same_pseudonym(people):
    with fresh_pseudonyms() as (_, pseudonyms):
        hidden = {(pseudonyms.hide_text(kind, text), kind) for kind, text in people}
        assert len({text for text, _ in hidden}) == len(people)
        assert not hidden & {(text, kind) for kind, text in people}


@settings(deadline=None)
@given(st.lists(somebody, unique=True, min_size=1, max_size=6), st.data())
def test_who_is_forgotten_is_gone_and_all_others_are_there(people, data):
    with fresh_pseudonyms() as (path, pseudonyms):
        hidden = {each: pseudonyms.hide_text(*each) for each in people}
        pseudonyms.flush()
        unwanted = data.draw(st.sampled_from(identities(path))) if identities(path) else None
        if unwanted is None:
            return
        before = identities(path)
        assert forget(path, unwanted.kind, unwanted.identity) >= 1
        left = identities(path)
        assert unwanted not in left
        assert set(before) >= set(left)
        pseudonyms.refresh()
        kept = {each.pseudonym for each in left}
        for (kind, text), pseudonym in hidden.items():
            identity = pseudonym.partition(":")[0]
            if identity in kept or not is_pseudonym(pseudonym):
                assert pseudonyms.reveal_text(kind, pseudonym) == text
                assert pseudonyms.hide_text(kind, text) == pseudonym
            else:
                assert pseudonyms.reveal_text(kind, pseudonym) == pseudonym
                assert pseudonyms.hide_text(kind, text) not in {pseudonym, text}


def test_an_event_about_nobody_is_the_same_object(open_, path):
    pseudonyms = open_()
    event = ev.ServerStopped()
    nobody = ev.SessionOpened(session="1", peer="", actor="")
    assert pseudonyms.hide(event) is event
    assert pseudonyms.reveal(event) is event
    assert pseudonyms.hide(nobody) == nobody
    pseudonyms.flush()
    assert path.read_bytes() == b""


@pytest.mark.parametrize(
    "forms",
    [["10.0.0.7", "10.0.0.7:50123", "10.0.0.7:1"], ["::1", "[::1]:7890", "[::1]:7891"], ["/run/bus.sock"]],
    ids=["IPv4", "IPv6", "path"],
)
def test_only_the_host_is_hidden_and_can_be_grouped_by(open_, forms):
    pseudonyms = open_()
    hidden = [pseudonyms.hide(ev.AuthFailed(peer=peer)).peer for peer in forms]
    assert len({host_of(each) for each in hidden}) == 1
    assert [each.partition(":")[2] for each in hidden] == [
        each.removeprefix("[::1]:").removeprefix("10.0.0.7:") if each not in forms[:1] else "" for each in forms
    ]
    assert [pseudonyms.reveal_text("peer", each) for each in hidden] == forms


def test_an_actor_and_a_host_of_the_same_name_are_two(open_):
    pseudonyms = open_()
    hidden = pseudonyms.hide(ev.AuthFailed(actor="hall", peer="hall"))
    assert hidden.actor != hidden.peer
    assert pseudonyms.reveal_text("actor", hidden.peer) == hidden.peer


def test_what_is_no_text_is_refused_and_leaves_nothing_behind(open_, path):
    pseudonyms = open_()
    for _ in range(2):
        with pytest.raises(ValueError, match="surrogates"):
            pseudonyms.hide(ev.AuthFailed(actor="\ud800"))
    pseudonyms.flush()
    assert path.read_bytes() == b""


def test_a_name_that_is_another_ones_pseudonym_is_not_revealed(open_):
    pseudonyms = open_()
    stolen = pseudonyms.hide_text("actor", "ann")
    hidden = pseudonyms.hide_text("actor", stolen)
    assert hidden != stolen
    assert pseudonyms.reveal_text("actor", hidden) == stolen


def test_a_pseudonym_that_nobody_has_stays_the_same(open_, path):
    pseudonyms = open_()
    opened = pseudonyms.hide(ev.SessionOpened(actor="ann", peer="10.0.0.7:50123"))
    pseudonyms.flush()
    forget(path, "actor", "ann")
    forget(path, "peer", "10.0.0.7")
    after = open_()
    assert after.reveal(opened) == opened
    assert after.hide(opened) == opened
    after.flush()
    assert names(path) == []


@each_row("text", ["~3fa91c0be27d5846019ab3cd", "~3fa91c0be27d5846019ab3cd:80"])
def test_a_pseudonym_has_a_form(text):
    assert is_pseudonym(text)


@each_row("text", ["", "~", "ann", "3fa91c0be27d5846019ab3cd", "~3FA91C0BE27D5846019AB3CD", "10.0.0.7:80"])
def test_what_is_no_pseudonym_does_not_have_it(text):
    assert not is_pseudonym(text)


# The file.


def test_the_file_is_for_its_owner_only_and_has_a_line_for_each(open_, path):
    pseudonyms = open_()
    hidden = pseudonyms.hide_text("actor", "ann\n")
    pseudonyms.hide_text("peer", "[::1]:80")
    pseudonyms.flush()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(each["kind"], each["identity"], len(bytes.fromhex(each["key"]))) for each in lines] == [
        ("actor", "ann\n", 32), ("peer", "::1", 32),
    ]  # fmt: skip
    assert lines[0]["key"] != lines[1]["key"]
    assert identities(path)[0].pseudonym == hidden
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    forget(path, "actor", "ann\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(path.parent.iterdir()) == [path]


def test_a_flush_is_one_write_and_one_sync(path, open_):
    files = FaultyFiles()
    pseudonyms = open_(files)
    for name in ("ann", "ben", "cid"):
        pseudonyms.hide_text("actor", name)
    pseudonyms.flush()
    assert files.done == ["write", "sync"]
    pseudonyms.hide_text("actor", "ann")
    pseudonyms.flush()
    assert files.done == ["write", "sync"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_may_use_is_refused(path, mode):
    path.touch()
    path.chmod(mode)
    with pytest.raises(JournalError, match=f"others than its owner may use .* chmod 600 {path}"):
        Pseudonyms(path)
    with pytest.raises(JournalError, match="others than its owner"):
        check_key_file(path, path.parent / "journal")


def test_a_file_in_the_journal_directory_is_refused(tmp_path):
    journal = tmp_path / "journal"
    journal.mkdir()
    (tmp_path / "link").symlink_to(journal / "keys")
    for inside in (journal / "keys", journal / "deep" / "keys", tmp_path / "link", journal / ".." / "journal" / "keys"):
        with pytest.raises(JournalError, match="lies in the journal directory"):
            check_key_file(inside, journal)
    check_key_file(tmp_path / "keys", journal)
    check_key_file(tmp_path / "journal-keys", journal)


def test_what_is_no_file_is_refused(tmp_path):
    for wrong in (tmp_path, Path(os.devnull)):
        with pytest.raises(JournalError, match="no file"):
            check_key_file(wrong, tmp_path / "journal")
    for wrong in (tmp_path, tmp_path / "missing" / "keys"):
        with pytest.raises(JournalError, match="cannot use the key file"):
            Pseudonyms(wrong)
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match=r"cannot use the key file .* Not a directory"):
        check_key_file(tmp_path / "file" / "keys", tmp_path / "journal")


def test_a_missing_file_has_nobody_to_forget_and_is_not_made(path):
    for look in (lambda: identities(path), lambda: forget(path, "actor", "ann")):
        with pytest.raises(JournalError, match=f"{path}: No such file"):
            look()
    assert not path.exists()


def test_a_crash_at_any_byte_of_a_flush_loses_only_that_flush(open_, path):
    pseudonyms = open_()
    ann = pseudonyms.hide_text("actor", "ann")
    pseudonyms.flush()
    flushed = path.stat().st_size
    for name in ("ben", "ünal"):
        pseudonyms.hide_text("actor", name)
    pseudonyms.flush()
    whole = path.read_bytes()
    for size in range(flushed, len(whole) + 1):
        path.write_bytes(whole[:size])
        end = whole.rfind(b"\n", 0, size) + 1
        assert names(path) == ["ann", "ben", "ünal"][: whole[:size].count(b"\n")]
        assert path.stat().st_size == size
        assert revealed(path, "actor", ann) == "ann"
        assert path.read_bytes() == whole[:end]


def test_forgetting_somebody_leaves_nobody_in_a_torn_line(open_, path):
    pseudonyms = open_()
    pseudonyms.hide_text("actor", "ben")
    pseudonyms.flush()
    with path.open("ab") as file:
        file.write(b'{"kind":"actor","identity":"ann","key":"00')
    assert forget(path, "actor", "ann") == 0
    assert b"ann" not in path.read_bytes()
    assert names(path) == ["ben"]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b'{"kind":"actor","identity":"ann"}',
        b'{"kind":"user","identity":"ann","key":"%s"}' % (b"00" * 32),
        b'{"kind":"actor","identity":"ann","key":"%s"}' % (b"00" * 31),
        b'{"kind":"actor","identity":"ann","key":"%s"}' % (b"zz" * 32),
        b'{"kind":"actor","identity":"\xff","key":"%s"}' % (b"00" * 32),
        b'{"kind":"actor","identity":"ann","key":"%s","more":1}' % (b"00" * 32),
        bytes(200),
    ],
)
@pytest.mark.parametrize("behind", [0, 1])
def test_a_damaged_line_is_named(open_, path, line, behind):
    pseudonyms = open_()
    for name in ("ann", "ben"):
        pseudonyms.hide_text("actor", name)
    pseudonyms.flush()
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = b"".join([lines[0], line + b"\n", *lines[1 : 1 + behind]])
    path.write_bytes(damaged)
    for use in (lambda: Pseudonyms(path), lambda: identities(path), lambda: forget(path, "actor", "ann")):
        with pytest.raises(JournalError, match=f"{path}, line 2: not the key of a pseudonym"):
            use()
    assert path.read_bytes() == damaged


# A disk that fails.


@pytest.mark.parametrize("failing", ["write", "sync"])
@pytest.mark.parametrize("written", [0, 1, 120, 150])
def test_a_failed_flush_is_made_good_by_the_next(path, open_, failing, written):
    files = FaultyFiles()
    pseudonyms = open_(files)
    ann = pseudonyms.hide_text("actor", "ann")
    pseudonyms.flush()
    before = path.read_bytes()
    hidden = [pseudonyms.hide_text("actor", name) for name in ("ben", "cid")]
    files.failing, files.written = {failing}, written
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            pseudonyms.flush()
        assert path.read_bytes() == before
    files.failing = set()
    hidden.append(pseudonyms.hide_text("actor", "dan"))
    pseudonyms.flush()
    assert names(path) == ["ann", "ben", "cid", "dan"]
    assert [each.pseudonym for each in identities(path)] == [ann, *hidden]


@pytest.mark.parametrize("failing", ["write", "sync"])
@pytest.mark.parametrize("written", [0, 1, 104 + 3, 150])
def test_a_file_that_cannot_be_cut_does_not_stop_the_next_flush(path, open_, failing, written):
    files = FaultyFiles()
    pseudonyms = open_(files)
    hidden = [pseudonyms.hide_text("actor", name) for name in ("ann", "ben")]
    files.failing, files.written = {failing, "truncate"}, written
    with pytest.raises(OSError, match="Input/output"):
        pseudonyms.flush()
    files.failing = set()
    pseudonyms.flush()
    assert sorted({each.pseudonym for each in identities(path)}) == sorted(hidden)


def test_whoever_was_forgotten_after_a_failed_flush_stays_so(path, open_):
    files = FaultyFiles()
    pseudonyms = open_(files)
    ann, ben = (pseudonyms.hide_text("actor", name) for name in ("ann", "ben"))
    files.failing = {"sync", "truncate"}
    with pytest.raises(OSError, match="Input/output"):
        pseudonyms.flush()
    files.failing = {"sync"}
    cid = pseudonyms.hide_text("actor", "cid")
    with pytest.raises(OSError, match="Input/output"):
        pseudonyms.flush()
    assert forget(path, "actor", "ann") == 1
    files.failing = set()
    pseudonyms.flush()
    assert {each.pseudonym for each in identities(path)} == {ben, cid}
    assert pseudonyms.reveal_text("actor", ann) == ann


@pytest.mark.parametrize("failing", ["write", "sync", "rename"])
def test_who_cannot_be_forgotten_is_there_as_before(path, open_, failing):
    pseudonyms = open_()
    pseudonyms.hide_text("actor", "ann")
    pseudonyms.flush()
    before = path.read_bytes()
    files = FaultyFiles()
    files.failing, files.written = {failing}, 10
    with pytest.raises(JournalError, match=f"cannot forget anybody in the key file {path}: Input/output"):
        forget(path, "actor", "ann", files)
    assert path.read_bytes() == before
    assert sorted(path.parent.iterdir()) == [path]


def test_it_is_said_when_the_old_keys_may_still_be_on_the_disk(path, open_):
    class OldFileFails(FaultyFiles):
        def rename(self, path, target):
            super().rename(path, target)
            self.failing = {"write"}

    pseudonyms = open_()
    pseudonyms.hide_text("actor", "ann")
    pseudonyms.flush()
    with pytest.raises(JournalError, match="forgotten, but the old keys could not be overwritten"):
        forget(path, "actor", "ann", OldFileFails())
    assert names(path) == []


# Forgetting.


def test_the_old_file_is_overwritten_and_a_crash_leaves_none(path, open_, tmp_path):
    pseudonyms = open_()
    pseudonyms.hide_text("actor", "ann")
    pseudonyms.flush()
    size = path.stat().st_size
    os.link(path, tmp_path / "old")
    (tmp_path / "keys.new").write_text("left by a crash")
    assert forget(path, "actor", "ann") == 1
    assert (tmp_path / "old").read_bytes() == bytes(size)
    assert path.read_bytes() == b""
    assert not (tmp_path / "keys.new").exists()


def test_nothing_is_written_when_there_is_nobody_to_forget(path, open_):
    pseudonyms = open_()
    pseudonyms.hide(ev.AuthFailed(actor="ann", peer="10.0.0.7:1"))
    pseudonyms.flush()
    before = path.stat()
    assert forget(path, "actor", "Ann") == 0
    assert forget(path, "peer", "ann") == 0
    assert forget(path, "actor", "10.0.0.7") == 0
    assert os.path.samestat(path.stat(), before)


@pytest.mark.parametrize(
    ("said", "gone"),
    [
        ("10.0.0.7", {"10.0.0.7", "::ffff:10.0.0.7"}),
        ("10.0.0.7:50123", {"10.0.0.7", "::ffff:10.0.0.7"}),
        ("::ffff:a00:7", {"10.0.0.7", "::ffff:10.0.0.7"}),
        ("fe80:0::1", {"fe80::1", "fe80::1%eth0"}),
        ("[fe80::1]", {"fe80::1", "fe80::1%eth0"}),
        ("/run/bus.sock", {"/run/bus.sock"}),
        ("10.0.0.70", set()),
    ],
)
def test_a_host_is_forgotten_however_it_is_written(path, open_, said, gone):
    there = ["10.0.0.7", "::ffff:10.0.0.7", "fe80::1", "fe80::1%eth0", "/run/bus.sock"]
    pseudonyms = open_()
    for host in there:
        pseudonyms.hide_text("peer", host)
    pseudonyms.flush()
    assert forget(path, "peer", said) == len(gone)
    assert set(names(path)) == set(there) - gone


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_it_stays_the_file_of_the_server_when_root_forgets(path, open_):
    pseudonyms = open_()
    pseudonyms.hide_text("actor", "ann")
    pseudonyms.flush()
    os.chown(path, 12345, -1)
    assert forget(path, "actor", "ann") == 1
    assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (12345, 0o600)


def test_a_link_to_the_file_stays_a_link(tmp_path, path):
    link = tmp_path / "link"
    link.symlink_to(path)
    with reopened(link) as pseudonyms:
        pseudonyms.hide_text("actor", "ann")
        pseudonyms.flush()
        assert forget(link, "actor", "ann") == 1
        assert link.is_symlink()
        pseudonyms.hide_text("actor", "ben")
        pseudonyms.flush()
    assert names(path) == ["ben"]


def test_a_running_server_forgets_and_keeps_what_is_unflushed(open_, path):
    pseudonyms = open_()
    ann, ben = (pseudonyms.hide_text("actor", name) for name in ("ann", "ben"))
    pseudonyms.flush()
    cid = pseudonyms.hide_text("actor", "cid")
    assert forget(path, "actor", "ann") == 1
    assert forget(path, "actor", "cid") == 0
    pseudonyms.refresh()
    again = pseudonyms.hide_text("actor", "ann")
    assert again != ann
    assert pseudonyms.reveal_text("actor", ann) == ann
    assert pseudonyms.hide_text("actor", "ben") == ben
    assert pseudonyms.hide_text("actor", "cid") == cid
    pseudonyms.flush()
    assert [each.pseudonym for each in identities(path)] == [ben, cid, again]


def test_whoever_is_forgotten_before_a_flush_stays_forgotten(open_, path):
    pseudonyms = open_()
    ann = pseudonyms.hide_text("actor", "ann")
    pseudonyms.flush()
    ben = pseudonyms.hide_text("actor", "ben")
    forget(path, "actor", "ann")
    pseudonyms.flush()
    assert [each.pseudonym for each in identities(path)] == [ben]
    assert pseudonyms.hide_text("actor", "ann") != ann


def test_every_one_of_many_replacements_is_noticed(open_, path):
    pseudonyms = open_()
    seen = set()
    for _ in range(20):
        seen.add(pseudonyms.hide_text("actor", "ann"))
        pseudonyms.flush()
        pseudonyms.hide_text("actor", "ben")
        pseudonyms.flush()
        assert forget(path, "actor", "ben") == 1
        assert forget(path, "actor", "ann") == 1
        pseudonyms.refresh()
    assert len(seen) == 20


def test_a_missing_file_stops_the_next_flush_and_forgets_nobody(open_, path, tmp_path):
    pseudonyms = open_()
    ann = pseudonyms.hide_text("actor", "ann")
    pseudonyms.flush()
    path.rename(tmp_path / "aside")
    pseudonyms.refresh()
    pseudonyms.flush()
    ben = pseudonyms.hide_text("actor", "ben")
    with pytest.raises(FileNotFoundError):
        pseudonyms.flush()
    (tmp_path / "aside").rename(path)
    pseudonyms.flush()
    assert [each.pseudonym for each in identities(path)] == [ann, ben]


def test_a_damaged_new_file_is_refused_and_the_old_one_used(open_, path, tmp_path):
    pseudonyms = open_()
    ann = pseudonyms.hide_text("actor", "ann")
    pseudonyms.flush()
    aside = path.rename(tmp_path / "aside")
    path.touch(mode=0o600)
    path.write_bytes(b"damaged\n")
    pseudonyms.hide_text("actor", "ben")
    for use in (pseudonyms.refresh, pseudonyms.flush):
        with pytest.raises(JournalError, match="line 1"):
            use()
    assert pseudonyms.reveal_text("actor", ann) == "ann"
    aside.rename(path)
    pseudonyms.flush()
    assert names(path) == ["ann", "ben"]


def test_two_servers_may_share_a_file(open_, path):
    first, second = open_(), open_()
    hidden = [each.hide_text("actor", "ann") for each in (first, second)]
    for each in (first, second):
        each.flush()
    assert [revealed(path, "actor", each) for each in hidden] == ["ann", "ann"]
    assert forget(path, "actor", "ann") == 1
    assert [revealed(path, "actor", each) for each in hidden] == hidden


# Threads.


def run_threads(*functions):
    failures = []

    def run(function):
        try:
            function()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=[function]) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert failures == []


def test_no_pseudonym_is_written_before_its_key_is_durable(open_, path):
    pseudonyms = open_()
    entries, flushed = [], []
    done = threading.Event()

    def hide():
        # One after the other: the writer looks at them meanwhile.
        entries.extend(pseudonyms.hide_text("actor", f"user {number % 700}") for number in range(2000))
        done.set()

    def write():
        ending = False
        while not ending:
            ending = done.is_set()
            batch = len(entries)
            pseudonyms.flush()
            flushed.append((batch, path.stat().st_size))

    run_threads(hide, write)
    text = path.read_bytes()
    assert len(names(path)) == 700
    known = [each.pseudonym for each in identities(path)]
    for batch, size in flushed:
        assert set(entries[:batch]) <= set(known[: text[:size].count(b"\n")])


def test_two_threads_that_hide_the_same_agree(open_):
    pseudonyms = open_()
    hidden = [[], []]
    both = threading.Barrier(2)

    def hide(into):
        for number in range(500):
            both.wait(PATIENCE)
            into.append(pseudonyms.hide_text("actor", str(number)))

    run_threads(lambda: hide(hidden[0]), lambda: hide(hidden[1]))
    assert hidden[0] == hidden[1]
    pseudonyms.flush()


def test_forgetting_during_a_flush_loses_and_resurrects_nobody(open_, path):
    pseudonyms = open_()
    pseudonyms.hide_text("actor", "ann")
    pseudonyms.flush()
    hidden = []
    forgotten = []
    done = threading.Event()

    def serve():
        for number in range(300):
            hidden.append(pseudonyms.hide_text("actor", f"user {number}"))
            pseudonyms.flush()
        done.set()

    def forget_one_after_the_other():
        while not done.is_set():
            if forget(path, "actor", f"user {len(forgotten)}"):
                forgotten.append(f"user {len(forgotten)}")

    run_threads(serve, forget_one_after_the_other)
    pseudonyms.refresh()
    kept = hidden[len(forgotten) :]
    assert [each.pseudonym for each in identities(path)][1:] == kept
    assert [pseudonyms.reveal_text("actor", each) for each in hidden] == [
        *hidden[: len(forgotten)],
        *(f"user {number}" for number in range(len(forgotten), 300)),
    ]


def test_the_rules_in_effect_have_pseudonyms_and_no_digest(open_):
    """Users, and networks of one address, are people. Larger networks and formats are not."""
    rule = PolicyRule(line=1, users=("ann", "*", "anonymous"), networks=("10.0.0.7/32", "10.0.0.0/8", "unix"))
    policy = PolicyText(name="policy.toml", digest="9f" * 32, groups={"staff": ("bob",)}, rules=(rule,))
    event = ev.ConfigReloaded(in_effect=InEffect(policy=policy, limits={"max-links": 5}))
    pseudonyms = open_()
    hidden = pseudonyms.hide(event)
    text = repr(hidden)
    assert not any(name in text for name in ("ann'", "bob", "10.0.0.7", "9f9f"))
    shown = hidden.in_effect.policy.rules[0]
    assert shown.users[1:] == ("*", "anonymous")
    assert shown.networks[1:] == ("10.0.0.0/8", "unix")
    revealed = pseudonyms.reveal(hidden).in_effect.policy
    assert revealed.groups == {"staff": ("bob",)}
    assert revealed.rules[0].users == ("ann", "*", "anonymous")
    assert revealed.rules[0].networks == ("10.0.0.7", "10.0.0.0/8", "unix")
