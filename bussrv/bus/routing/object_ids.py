"""Ids of objects that came without one. Pure."""

from __future__ import annotations

import secrets

DIGITS = 15
"""The digits of the number in an id, at least: so many are enough for years of objects at full speed."""


class ObjectIds:
    """Makes ids: a prefix that no other boot of any server has, and a number. It is called for the next one.

    Requests have ids that nobody can guess, because replies name them; these ids can be guessed.

    :param prefix: printable ASCII without quotes or backslashes; by default 48 random bits in hexadecimal.
    :ivar made: how many were made.
    """

    def __init__(self, prefix: str | None = None, digits: int = DIGITS) -> None:
        self.prefix = secrets.token_hex(6) if prefix is None else prefix
        self.digits = digits
        self.made = 0
        self.opening = b',"id":"%b' % self.prefix.encode()

    def __call__(self) -> str:
        """The next id."""
        self.made += 1
        return f"{self.prefix}{self.made:0{self.digits}}"
