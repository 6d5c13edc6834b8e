"""Secrets that were right a short time ago, and delays after failures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.policy.logins import login_history
from bussrv.policy.logins.credentials import Proof
from bussrv.policy.logins.login_history import KEPT, Delays, Failures, VerifiedSecrets

PROOF = Proof("ann", "password", None)
PAIRS = st.tuples(st.text(max_size=5), st.binary(max_size=5))


@given(PAIRS, PAIRS)
def test_each_user_and_secret_has_a_key_of_its_own_in_each_boot(
    one: tuple[str, bytes], other: tuple[str, bytes]
) -> None:
    boot, next_boot = VerifiedSecrets(bytes(16)), VerifiedSecrets(bytes(32))
    assert (boot.key(*one) == boot.key(*other)) == (one == other)
    assert boot.key(*one) != next_boot.key(*one)


def test_secrets_are_forgotten_after_a_time_and_when_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_history, "MAX_KEYS", 2)
    verified = VerifiedSecrets(bytes(16))
    for now, key in enumerate((b"a", b"b", b"a", b"c")):
        verified.add(key, PROOF, now)
    assert [verified.get(key, 4) is PROOF for key in (b"a", b"b", b"c")] == [True, False, True]
    assert [verified.get(key, 2 + KEPT) is PROOF for key in (b"a", b"c")] == [False, True]
    verified.clear()
    assert verified.get(b"c", 4) is None


def test_delays_grow_up_to_a_limit_and_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_history, "MAX_KEYS", 2)
    failures = Failures(Delays(free=1, first=1.0, most=3.0, forgotten=60.0))
    delays = []
    for now in range(5):
        failures.failed("a", now)
        delays.append(failures.due("a") - now)
    assert delays == [0.0, 1.0, 2.0, 3.0, 3.0]
    assert failures.due("b") == 0.0
    failures.failed("a", 64)
    assert failures.due("a") == 64
    for key in ("b", "c"):
        failures.failed(key, 65)
    assert (failures.due("a"), failures.due("c")) == (0.0, 65.0)
    failures.forget("c")
    assert failures.due("c") == 0.0
    assert Delays(free=0, first=1.0, most=3.0).after(10**9) == 3.0
