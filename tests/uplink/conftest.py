from collections.abc import Iterator

import pytest

from tests.uplink.nats_cluster import NatsCluster


@pytest.fixture(scope="session")
def one_nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with NatsCluster(tmp_path_factory.mktemp("nats"), nodes=1) as server:
        yield server


@pytest.fixture(scope="session")
def three_nats_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with NatsCluster(tmp_path_factory.mktemp("nats")) as cluster:
        yield cluster


@pytest.fixture
def nats_server(one_nats_server: NatsCluster) -> Iterator[NatsCluster]:
    """A NATS server with JetStream that stands alone; without faults and streams at the start of each test."""
    yield one_nats_server
    one_nats_server.mend()


@pytest.fixture
def nats_cluster(three_nats_servers: NatsCluster) -> Iterator[NatsCluster]:
    """A cluster of three; without faults and streams at the start of each test."""
    yield three_nats_servers
    three_nats_servers.mend()
