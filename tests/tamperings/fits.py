"""What an attacker makes anew after tampering, so that the change fits: each is given the segment that it is in."""

from __future__ import annotations

from collections.abc import Callable

from bussrv.journal.keys import PrivateKey
from tests.tamperings.copies import Copy

Fit = Callable[[Copy, int], object]


def nothing(copy: Copy, number: int) -> None:
    """Leave everything as it is."""


def the_segment(copy: Copy, number: int) -> None:
    """Chain the lines of the segment."""
    copy.chain(number)


def the_rest(copy: Copy, number: int) -> None:
    """Chain everything from the segment on, headers included."""
    copy.chain_from(number)


def everything_but_seals(copy: Copy, number: int) -> None:
    """Chain the whole journal, and let no header refer to a seal."""
    copy.without_seals()
    copy.chain_from(copy.numbers[0])


def everything(key: PrivateKey | None) -> Fit:
    """Make all seals anew as well, signed with a key or not signed."""

    def fit(copy: Copy, number: int) -> None:
        everything_but_seals(copy, number)
        copy.seal_anew(key)

    return fit


def the_rest_sealed(key: PrivateKey) -> Fit:
    """Chain everything from the segment on, and make its seals and later ones anew."""

    def fit(copy: Copy, number: int) -> None:
        copy.chain_from(number)
        copy.seal_anew(key, copy.seals_of(number)[0])

    return fit


def sealed_again(key: PrivateKey) -> Fit:
    """Chain everything from the segment on, and seal the segment once more."""

    def fit(copy: Copy, number: int) -> None:
        copy.chain_from(number)
        copy.add_entry(key, **copy.seal_of(number))

    return fit
