"""A bus, and a server with two links."""

import pytest

from tests.bus.harness import BusHarness
from tests.formats.network import Network, drain


@pytest.fixture
def harness():
    return BusHarness()


@pytest.fixture
def network():
    return Network()


@pytest.fixture
def scene(network):
    """A member, and two servers that are linked."""
    scene = network.member(), network.server("attic"), network.server("cellar")
    drain(scene)
    return scene
