"""What a program says about its client."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.client.settings import Backoff, Login

pauses = st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=2).map(sorted)


@given(pauses, st.integers(0, 10_000), st.floats(0, 1))
def test_a_pause_is_half_of_the_doubled_one_to_the_whole(pauses: list[float], attempts: int, drawn: float) -> None:
    first, most = pauses
    pause = Backoff(first, most).pause(attempts, lambda: drawn)
    longest = most if attempts > 40 else min(most, first * 2**attempts)
    assert longest / 2 <= pause <= longest
    assert (drawn == 1) <= (pause == longest)


@given(pauses)
def test_pauses_grow_until_they_are_the_longest(pauses: list[float]) -> None:
    backoff = Backoff(*pauses)
    whole = [backoff.pause(attempts, lambda: 1.0) for attempts in range(40)]
    assert whole[0] == pauses[0]
    assert whole[-1] == pauses[1]
    assert all(later == min(2 * earlier, pauses[1]) for earlier, later in pairwise(whole))


@pytest.mark.parametrize("pauses", [(0, 1), (-1, 1), (2, 1)])
def test_a_first_pause_is_over_nothing_and_at_most_the_last(pauses: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="the first pause"):
        Backoff(*pauses)


def test_secrets_are_asked_for_when_needed_and_never_shown() -> None:
    secrets = iter(["old", "new"])
    login = Login("ann", secret=lambda: next(secrets))
    assert [login.credentials() for _ in range(2)] == [
        {"user": "ann", "secret": "old"},
        {"user": "ann", "secret": "new"},
    ]
    assert Login(token="ticket").credentials() == {"token": "ticket"}
    assert Login().credentials() == {}
    assert "ticket" not in repr(Login(token="ticket")) + repr(Login("ann", "ticket"))


@pytest.mark.parametrize("wrong", [{"secret": "s"}, {"user": "ann", "secret": "s", "token": "t"}])
def test_a_secret_has_a_user_and_no_token_beside_it(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="secret"):
        Login(**wrong)
