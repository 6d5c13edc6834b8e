"""A spool against dictionaries, whatever is changed, fails, expires, is killed or opened again."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from bussrv.errors import OverLimit, Refused
from bussrv.settings import Settings
from bussrv.spool.accounts import ENTRY_BYTES, OWNER_BYTES
from bussrv.spool.entries import (
    Append,
    AppendToAll,
    Change,
    Claim,
    Drop,
    DropsTold,
    Entry,
    Put,
    Remove,
    RemoveKey,
    RemoveUpTo,
    Replace,
    Written,
)
from bussrv.spool.file import NAME, SpoolFile
from bussrv.spool.store import SpoolStore
from tests.journal.support import FakeClock
from tests.size import sized
from tests.spool.support import Disk, bytes_of

LIMITS = Settings(max_spool_entries=5, max_spool=9000, max_spool_per_address=12_000, max_spool_total=16_000)
OWNERS = ("ann", "bob", "eve")
KINDS = ("queue", "state")
KEYS = ("a", "b")
MARK = b"payload-"
NO_NUMBERS = range(1 << 40, (1 << 40) + 100, 10)
"""These stand for the numbers that a call would have had which was refused."""

HEAD = re.compile(rb"<.>")

owners = st.sampled_from(OWNERS)
kinds = st.sampled_from(KINDS)
# Small ones share pages of the file; large ones have pages of their own.
sizes = st.sampled_from([0, 1, 50, 900, 3000, 5000])
numbers = st.integers(0, 30)
lifetimes = st.one_of(st.none(), st.integers(1, 20))
additions = st.one_of(
    st.tuples(st.just("append"), owners, kinds, sizes, lifetimes),
    st.tuples(st.just("append"), owners, st.just("queue"), sizes, lifetimes),
    st.tuples(st.just("drop"), owners, kinds, sizes, lifetimes),
    st.tuples(st.just("all"), st.permutations(OWNERS), st.sampled_from(KINDS), st.integers(1, 3), sizes, lifetimes),
    st.tuples(st.just("put"), owners, kinds, st.sampled_from(KEYS), sizes, lifetimes),
)
claims = st.builds(
    Claim,
    owner=owners,
    address=st.sampled_from(["10.0.0.1:7", "10.0.0.2:7", "127.0.0.1:7"]),
    drops_oldest=st.booleans(),
)
removals = st.one_of(
    st.builds(Remove, owner=owners, kind=kinds, number=numbers),
    st.builds(RemoveKey, owner=owners, kind=kinds, key=st.sampled_from(KEYS)),
    st.builds(RemoveUpTo, owner=owners, kind=kinds, number=numbers),
    st.builds(Replace, owner=owners, kind=kinds, number=numbers, payload=st.just(b"")),
    st.builds(DropsTold, owner=owners, count=st.integers(0, 3)),
)
calls = st.one_of(
    st.lists(additions, min_size=1, max_size=4),
    st.lists(st.one_of(additions, additions, removals, claims), min_size=1, max_size=4),
    st.lists(st.one_of(removals, claims, st.builds(Drop, owner=owners)), min_size=1, max_size=2),
)
several = st.lists(calls, min_size=1, max_size=4)


@dataclass
class ModelOwner:
    address: str
    drops_oldest: bool
    entries: dict[int, tuple[str, Entry]] = field(default_factory=dict)
    dropped: int = 0

    @property
    def bytes(self) -> int:
        return OWNER_BYTES + sum(size_of(entry.key, entry.payload) for _, entry in self.entries.values())


def size_of(key: str | None, payload: bytes) -> int:
    return ENTRY_BYTES + len(key or "") + len(payload)


@dataclass
class Model:
    """Dictionaries, added up anew whenever a limit is looked at."""

    owners: dict[str, ModelOwner] = field(default_factory=dict)
    greatest: int = 0

    def apply(self, call: list[Change], given: Any) -> Written:
        """:param given: numbers that the spool gave, in order: which it chooses is its own affair.

        :raises Refused: a call that the spool has to refuse.
        """
        before, found, dropped = deepcopy(self.owners), [], 0
        try:
            for change in call:
                if isinstance(change, Claim):
                    self.claim(change)
                elif isinstance(change, Drop):
                    self.owners.pop(change.owner, None)
                elif isinstance(change, AppendToAll):
                    found.append(next(given))
                    dropped += self.append_to_all(change, found[-1])
                elif change.owner not in self.owners:
                    if isinstance(change, (Append, Put)):
                        dropped += 1
                        found.append(self.no_owner(change, given))
                elif isinstance(change, Append):
                    lost, has_room = self.append(change)
                    dropped += lost
                    found.append(self.add(change, None, given) if has_room else next(given))
                    assert has_room or found[-1] == 0 or found[-1] >= NO_NUMBERS[0]
                elif isinstance(change, Put):
                    found.append(self.put(change, given))
                else:
                    self.remove(self.owners[change.owner], change)
        except Refused:
            self.owners = before
            raise
        return Written(tuple(found), dropped)

    def no_owner(self, change: Append | Put, given: Any) -> int:
        if not change.or_drop:
            raise Refused("no-such-owner", "")
        number: int = next(given)
        assert number == 0 or number >= NO_NUMBERS[0]
        return number

    def limit(self, owner: ModelOwner, entries: int, size: int) -> str | None:
        host = owner.address.partition(":")[0]
        of_address = sum(each.bytes for each in self.owners.values() if each.address.partition(":")[0] == host)
        found = {
            "max-spool-entries": entries > 0 and len(owner.entries) + entries > LIMITS.max_spool_entries,
            "max-spool": owner.bytes + size > LIMITS.max_spool,
            "max-spool-per-address": host != "127.0.0.1" and of_address + size > LIMITS.max_spool_per_address,
            "max-spool-total": sum(each.bytes for each in self.owners.values()) + size > LIMITS.max_spool_total,
        }
        return next((name for name, is_over in found.items() if is_over and (size > 0 or entries)), None)

    def check(self, owner: ModelOwner, entries: int, size: int) -> None:
        limit = self.limit(owner, entries, size)
        if limit is not None:
            raise OverLimit("spool-full", "", limit, 0)

    def claim(self, change: Claim) -> None:
        if change.owner in self.owners:
            owner = self.owners[change.owner]
            owner.address, owner.drops_oldest = change.address, change.drops_oldest
        else:
            new = ModelOwner(change.address, change.drops_oldest)
            self.check(new, 0, OWNER_BYTES)
            self.owners[change.owner] = new

    def append(self, change: Append) -> tuple[int, bool]:
        """:returns: how many entries are dropped, and whether there is room."""
        owner, dropped, size = self.owners[change.owner], 0, size_of(None, change.payload)
        # The limit that would be exceeded even if it dropped everything.
        limit = self.limit(owner, 1 - len(owner.entries), size - (owner.bytes - OWNER_BYTES))
        has_room = limit is None
        while has_room and (limit := self.limit(owner, 1, size)):
            oldest = [number for number, (kind, _) in owner.entries.items() if kind == change.kind]
            if owner.drops_oldest and oldest:
                del owner.entries[min(oldest)]
                dropped += 1
            else:
                has_room = False
        if limit is not None and not has_room and not change.or_drop:
            raise OverLimit("spool-full", "", limit, 0)
        dropped += not has_room
        owner.dropped += dropped
        return dropped, has_room

    def append_to_all(self, change: AppendToAll, first: int) -> int:
        """:returns: how many entries are dropped."""
        dropped, numbers = 0, range(first, first + len(change.owners))
        for owner, head, number in zip(change.owners, change.heads, numbers, strict=True):
            if owner not in self.owners:
                dropped += 1
                continue
            payload = head + change.payload
            alone = Append(owner=owner, kind=change.kind, payload=payload, expires=change.expires, or_drop=True)
            lost, has_room = self.append(alone)
            dropped += lost
            if has_room:
                self.add(alone, None, iter([number]))
        if first < NO_NUMBERS[0]:
            assert first > self.greatest or self.greatest in numbers, "a number was used again"
            self.greatest = numbers[-1]
        return dropped

    def add(self, change: Append | Put, key: str | None, given: Any) -> int:
        number: int = next(given)
        if number < NO_NUMBERS[0]:
            assert number > self.greatest, "a number was used again"
            self.greatest = number
        self.owners[change.owner].entries[number] = change.kind, Entry(number, key, change.payload, change.expires)
        return number

    def put(self, change: Put, given: Any) -> int:
        owner = self.owners[change.owner]
        size = size_of(change.key, change.payload)
        for number, (kind, entry) in owner.entries.items():
            if (kind, entry.key) == (change.kind, change.key):
                self.check(owner, 0, size - size_of(entry.key, entry.payload))
                owner.entries[number] = kind, Entry(number, change.key, change.payload, change.expires)
                assert next(given) in (number, *NO_NUMBERS)
                return number
        self.check(owner, 1, size)
        return self.add(change, change.key, given)

    def remove(self, owner: ModelOwner, change: Any) -> None:
        if isinstance(change, DropsTold):
            owner.dropped = max(0, owner.dropped - change.count)
            return
        for number, (kind, entry) in tuple(owner.entries.items()):
            is_meant = {
                Remove: lambda: number == change.number,  # noqa: B023
                Replace: lambda: number == change.number,  # noqa: B023
                RemoveKey: lambda: entry.key == change.key,  # noqa: B023
                RemoveUpTo: lambda: number <= change.number,  # noqa: B023
            }[type(change)]()
            if kind != change.kind or not is_meant:
                continue
            if isinstance(change, Replace):
                owner.entries[number] = kind, replace(entry, payload=change.payload)
            else:
                del owner.entries[number]


def outcome_of(call: Callable[[], Written]) -> Written | tuple[str, str]:
    """What came of a call; of one that was refused, the reason and the limit."""
    try:
        return call()
    except Refused as refused:
        return refused.reason, getattr(refused, "limit", "")


class SpoolMachine(RuleBasedStateMachine):
    @initialize(is_file=st.booleans())
    def begin(self, is_file: bool) -> None:
        # The disk fails as the test says. In memory nothing waits for a real one.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.directory = Path(tempfile.mkdtemp(dir=memory)) / "spool" if is_file else None
        self.boots = 0
        self.counted: dict[str, int] = {}
        self.disk, self.clock = Disk(), FakeClock()
        self.model = Model()
        self.made: Counter[bytes] = Counter()
        self.open()
        self.transact([[Claim(owner=each, address="10.0.0.1:7", drops_oldest=each == "bob")] for each in OWNERS], None)

    def open(self) -> None:
        self.file = SpoolFile(self.directory, connect=self.disk.connect)
        self.store = SpoolStore(self.file.open(), LIMITS, self.clock.utc)
        self.store.begin()
        self.store.commit()

    def change(self, drawn: Any) -> Change:
        if isinstance(drawn, (Remove, RemoveUpTo, Replace)):
            known = sorted(number for each in self.model.owners.values() for number in each.entries)
            return replace(drawn, number=known[drawn.number % len(known)]) if known else drawn
        if not isinstance(drawn, tuple):
            return drawn
        name, owner, kind, *more, size, lifetime = drawn
        # Each payload is there once, so that a search of the file finds it.
        payload = b"%s%d." % (MARK, self.made.total()) * size
        payload = payload[: max(size, 20)] if size else b""
        self.made[payload] += 1
        expires = None if lifetime is None else self.clock.utc() + lifetime * 1_000_000
        if name == "all":
            heads = tuple(b"<%d>" % number for number in range(more[0]))
            return AppendToAll(owners=tuple(owner[: more[0]]), kind=kind, heads=heads, payload=payload, expires=expires)
        if name == "put":
            return Put(owner=owner, kind=kind, key=more[0], payload=payload, expires=expires)
        return Append(owner=owner, kind=kind, payload=payload, expires=expires, or_drop=name == "drop")

    @rule(drawn=several)
    def transact_in_peace(self, drawn: Any) -> None:
        self.transact(drawn, None)

    @rule(drawn=several, fail_after=st.integers(0, 40))
    def transact(self, drawn: Any, fail_after: int | None) -> None:
        """Several calls in one transaction, of which a statement may fail."""
        before, outcomes = deepcopy(self.model), []
        asked = [[self.change(each) for each in call] for call in drawn]
        self.disk.fail_after = fail_after
        try:
            self.store.begin()
            outcomes = [outcome_of(partial(self.store.apply, each)) for each in asked]
            self.store.commit()
        except sqlite3.OperationalError:
            self.disk.fail_after = None
            self.store.rollback()
            self.model = before
            return
        self.disk.fail_after = None
        for call, outcome in zip(asked, outcomes, strict=True):
            # A call that is refused may be so after some numbers.
            given = outcome.numbers if isinstance(outcome, Written) else NO_NUMBERS
            assert outcome == outcome_of(partial(self.model.apply, call, iter(given))), call

    @rule(seconds=st.integers(1, 10))
    def let_time_pass(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule()
    def expire(self) -> None:
        self.store.begin()
        removed = self.store.expire()
        self.store.commit()
        for owner in self.model.owners.values():
            gone = [number for number, (_, entry) in owner.entries.items() if not self.lives(entry)]
            removed -= len(gone)
            for number in gone:
                del owner.entries[number]
        assert removed == 0

    def lives(self, entry: Entry) -> bool:
        return entry.expires is None or entry.expires > self.clock.utc()

    @rule()
    def tidy(self) -> None:
        assert self.store.tidy()

    @rule()
    def rewrite(self) -> None:
        """What was removed is in no file any more."""
        self.store.rewrite()
        assert not self.store.has_removed
        if self.directory is not None:
            kept = {
                HEAD.sub(b"", entry.payload)
                for owner in self.model.owners.values()
                for _, entry in owner.entries.values()
            }
            found = bytes_of(self.directory)
            assert [each for each in self.made if each and each not in kept and each[:20] in found] == []
            assert all(each[:20] in found for each in kept)

    @rule(is_killed=st.booleans())
    def restart(self, is_killed: bool) -> None:
        """A process that is killed leaves its files as they are at that moment."""
        if self.directory is None:
            return
        if is_killed:
            self.boots += 1
            copy = self.directory.with_name(f"spool{self.boots}")
            shutil.copytree(self.directory, copy)
            (copy / f"{NAME}-shm").unlink()
            self.store.close()
            self.directory = copy
        else:
            self.store.close()
        self.file.release()
        self.open()

    @invariant()
    def everything_is_there(self) -> None:
        assert self.store.owners("", 10) == tuple(sorted(self.model.owners))
        is_all, changed = self.store.take_changed()
        self.counted = {} if is_all else self.counted
        self.counted.update(changed)
        counts = {name: len(each.entries) for name, each in self.model.owners.items()}
        assert {name: each for name, each in self.counted.items() if each} == {k: v for k, v in counts.items() if v}
        for name in OWNERS:
            model, owner = self.model.owners.get(name), self.store.owner(name)
            if model is None:
                assert owner is None
                continue
            assert owner is not None
            assert (owner.bytes, owner.dropped, owner.drops_oldest) == (model.bytes, model.dropped, model.drops_oldest)
            assert owner.kinds == Counter(kind for kind, _ in model.entries.values())
            for kind in KINDS:
                wanted = [entry for number, (each, entry) in sorted(model.entries.items()) if each == kind]
                page = self.store.page(name, kind, 0, 100, 1 << 20)
                assert (list(page.entries), page.is_last) == ([each for each in wanted if self.lives(each)], True)

    @invariant()
    def what_expires_next_is_known(self) -> None:
        times = [
            entry.expires
            for owner in self.model.owners.values()
            for _, entry in owner.entries.values()
            if entry.expires is not None
        ]
        assert self.store.next_expiry() == min(times, default=None)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.file.release()
            if self.directory is not None:
                shutil.rmtree(self.directory.parent)


TestSpool = SpoolMachine.TestCase
TestSpool.settings = settings(max_examples=sized(240), stateful_step_count=30)
