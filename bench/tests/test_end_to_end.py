"""The load generator and a real server: every delivery is accounted for, in every wire format."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from compare_generator import Generator, Measured
from compare_servers import BUSSRV, SELECT, Running, start

from bussrv.compiled import HOT_PATH
from bussrv.events import SubscriptionAdded, SubscriptionRemoved
from tests.end_to_end.journals import events_of

ROOT = Path(__file__).parents[2]
OPTIONS: Mapping[str, object] = {"seconds": 0.2, "warmup": 0.05, "window": 20}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with start(BUSSRV, tmp_path_factory.mktemp("server")) as running:
        yield running


def measure(generator: Generator, server: Running, *parties: str, **options: object) -> Measured:
    placed = [party.format(**server.places) for party in parties]
    return generator.run(placed, {**OPTIONS, **options}, server.pids)


@pytest.mark.parametrize(
    ("parties", "fanout"),
    [
        (["pub:{objects}:1", "sub:{objects}:5"], 5),
        (["pub:{objects}:3", "sub:{objects}:2", "sub:{business}:2"], 4),
        (["pub:{business}:1", "sub:{objects}:1"], 1),
        (["pub:{objects-service}:1", "sub:{spp}:3"], 3),
        (["pub:{inbus}:1", "sub:{inbus}:3"], 3),
        (["pub:{inbus2}:1", "sub:{objects}:2", "sub:{spp}:2"], 4),
        (["req:{objects}:3", "prov:{objects}:2"], 2),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_all_of_it_arrives(generator: Generator, server: Running, parties: list[str], fanout: int) -> None:
    measured = measure(generator, server, *parties)
    assert measured.wrong == {}
    assert measured.all_publications >= measured.publications > 0
    assert measured.all_deliveries == fanout * measured.all_publications
    assert measured.rate > 0


@pytest.mark.parametrize(
    "parties", [["pub:{objects}:2", "sub:{objects}:3"], ["pub:{objects-service}:1", "sub:{spp}:3"]]
)
def test_objects_without_ids_arrive(generator: Generator, server: Running, parties: list[str]) -> None:
    measured = measure(generator, server, *parties, ids=0, metadata="100:2048")
    assert measured.wrong == {}
    assert measured.all_deliveries == 3 * measured.all_publications > 0


def test_groups_get_what_they_want(generator: Generator, server: Running) -> None:
    measured = measure(generator, server, "pub:{objects}:1", "sub:{objects}:2:1", "sub:{objects}:1:6", classes=4)
    assert measured.wrong == {}
    each = [len(range(kind, measured.all_publications, 4)) for kind in range(4)]
    assert measured.all_deliveries == 2 * each[0] + each[1] + each[2]


def test_an_open_loop_keeps_its_rate(generator: Generator, server: Running) -> None:
    measured = measure(generator, server, "pub:{objects}:1", "sub:{objects}:1", rate=200, warmup=0, seconds=0.5)
    assert measured.wrong == {}
    # The last ones may be late, and the first one is due after one interval.
    assert 90 <= measured.all_publications <= 101


def test_changes_of_the_registry(generator: Generator, server: Running) -> None:
    measured = measure(generator, server, "churn:{objects}:4")
    assert measured.deliveries > 0
    assert measured.latencies == measured.deliveries


def test_idle_clients_are_there_until_they_are_let_go(generator: Generator, server: Running) -> None:
    with generator.idle("idle:{objects}:3".format(**server.places)) as ready:
        assert ready > 0


def test_the_server_that_inbus_is_compared_with(generator: Generator, tmp_path: Path) -> None:
    with start(SELECT, tmp_path) as peer:
        measured = measure(generator, peer, "pub:{inbus}:1", "sub:{inbus}:3")
    assert measured.wrong == {}
    assert measured.all_deliveries == 3 * measured.all_publications > 0


def test_inbus_clients_leave_nobody_behind(generator: Generator, tmp_path: Path) -> None:
    with start(BUSSRV, tmp_path) as own:
        measure(generator, own, "pub:{inbus}:1", "sub:{inbus}:3")
    added, removed = (events_of(tmp_path / "journal", kind) for kind in (SubscriptionAdded, SubscriptionRemoved))
    assert len(added) == len(removed) == 3


def test_a_comparison(generator: Generator, tmp_path: Path) -> None:
    """With nobody to compare with, so that it needs nothing to be installed."""
    said, drawn = tmp_path / "result.json", tmp_path / "result.svg"
    command = [sys.executable, "bench/compare.py", "--only", "d", "d-noid", "l", "--against"]
    size = ["--rounds", "1", "--seconds", "0.2"]
    paths = ["--directory", str(tmp_path), "--json", str(said), "--chart", str(drawn)]
    ran = subprocess.run([*command, *size, *paths], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    assert f"hot path: {HOT_PATH}" in ran.stdout
    assert "d: 1 publisher, 1 subscriber" in ran.stdout
    result = json.loads(said.read_text())
    measured = {(row["scenario"], row["workload"]): row["rounds"] for row in result["rows"] if "rounds" in row}
    for key in (("d", "bussrv"), ("d-noid", "without ids"), ("d-noid", "with ids")):
        (one,) = measured[key]
        assert one["all_deliveries"] == one["all_publications"] > 0
    (three,) = measured["l", "three linked"]
    assert three["all_deliveries"] == 50 * three["all_publications"] > 0
    assert [bar["what"].partition(":")[0] for bar in result["bars"]] == ["l", "d-noid"]
    assert drawn.read_text().startswith("<svg")
