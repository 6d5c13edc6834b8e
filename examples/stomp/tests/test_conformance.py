"""The kit of bussrv judges the format: each promise is a test."""

from collections.abc import Callable

import pytest
from bussrv_stomp.adapter import StompAdapter


@pytest.mark.conformance(StompAdapter())
def test_stomp_keeps_the_promises_of_bussrv(promise: Callable[[], None]) -> None:
    promise()
