"""A registry with everything around it."""

import pytest

from tests.registry.support import Bench


@pytest.fixture
def bench():
    return Bench()
