from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from bar import print_bars
from compare_chart import chart
from compare_generator import Measured, read_measured
from compare_results import Idle, Results, bars, p99, per_busiest, per_cpu, rate
from compare_scenarios import SCENARIOS, Scenario, Workload
from compare_table import as_json, print_table

ONE = Measured(
    seconds=2.0,
    deliveries=2000,
    publications=1000,
    own_cpu=0.5,
    server_cpu=1.0,
    busiest_cpu=0.5,
    latencies=2000,
    p50=0.001,
    p99=0.01,
    max=0.1,
    all_deliveries=3000,
    all_publications=1500,
    lost=0,
    duplicates=0,
    disordered=0,
    stray=0,
    corrupt=0,
    abandoned=0,
    other=0,
    ready=0.1,
    ended=0,
)


def results(scenario: str, **rates: Sequence[float]) -> Results:
    """Rounds with so many deliveries a second."""
    made = Results()
    for server, each_round in rates.items():
        for value in each_round:
            made.add((scenario, server), replace(ONE, seconds=1.0, deliveries=int(value), p99=value))
    return made


def test_figures_of_a_measurement() -> None:
    assert (rate(ONE), per_cpu(ONE), per_busiest(ONE)) == (1000, 2000, 4000)
    assert replace(ONE, server_cpu=0.0).per_cpu > 0
    assert ONE.wrong == {}
    assert replace(ONE, lost=2, disordered=1, abandoned=1, other=3).wrong == {"lost": 2, "disordered": 1}


def test_what_the_generator_prints() -> None:
    line = json.dumps({"seconds": 1.0, **{name: 1 for name in ONE.__dataclass_fields__ if name != "seconds"}})
    assert read_measured(line).ended_after == 1


def test_medians() -> None:
    found = results("a", bussrv=[30, 10, 20])
    assert found.median(("a", "bussrv"), rate) == 20
    assert found.median(("a", "redis"), rate) is None


def test_a_ratio_is_that_within_rounds() -> None:
    # The second round was slow for both, which says nothing of either.
    found = results("a", bussrv=[400, 40, 440], redis=[200, 20, 400])
    assert found.ratio(("a", "bussrv"), ("a", "redis"), rate) == 2
    assert found.ratio(("a", "bussrv"), ("a", "nats"), rate) is None


def test_a_ratio_to_nothing() -> None:
    found = results("a", bussrv=[1], redis=[0], nats=[0])
    assert found.ratio(("a", "bussrv"), ("a", "redis"), rate) == float("inf")
    assert found.ratio(("a", "redis"), ("a", "bussrv"), rate) == 0
    assert found.ratio(("a", "redis"), ("a", "nats"), rate) == 1


def test_what_failed_does_not_count() -> None:
    found = results("a", bussrv=[1], redis=[1])
    found.fail(("a", "redis"), "refuses")
    assert found.ratio(("a", "bussrv"), ("a", "redis"), rate) is None
    assert found.failed == {("a", "redis"): "refuses"}


def test_what_went_wrong_is_summed_up() -> None:
    found = Results()
    for lost in (0, 2, 3):
        found.add(("a", "bussrv"), replace(ONE, lost=lost))
        found.add(("a", "redis"), ONE)
    assert found.wrong() == {("a", "bussrv"): {"lost": 5}}


@pytest.mark.parametrize(("ours", "holds"), [(119, False), (120, True)])
def test_a_bar_against_the_best_peer(ours: int, holds: bool) -> None:
    (bar,) = bars(results("a", bussrv=[ours], redis=[100], mosquitto=[10]))
    assert bar.holds is holds
    assert "redis" in bar.what


@pytest.mark.parametrize(
    ("scenario", "peer", "least"), [("d", "redis", 100), ("d", "mosquitto", 1000), ("i", "nats", 200)]
)
def test_a_bar_against_one_peer(scenario: str, peer: str, least: int) -> None:
    for ours, holds in ((least - 1, False), (least, True)):
        (bar,) = bars(results(scenario, bussrv=[ours], **{peer: [100]}))
        assert bar.holds is holds


@pytest.mark.parametrize(("ours", "holds"), [(110, True), (111, False)])
def test_a_bar_for_latency(ours: int, holds: bool) -> None:
    found = results("f", bussrv=[ours], mosquitto=[100])
    assert found.median(("f", "bussrv"), p99) == ours
    (bar,) = bars(found)
    assert bar.holds is holds


@pytest.mark.parametrize(("memory", "holds"), [(12 << 10, True), ((12 << 10) + 1, False)])
def test_a_bar_for_memory(memory: int, holds: bool) -> None:
    found = Results()
    found.add_idle(("m", "bussrv, quiet"), Idle(sessions=10, memory=10 * memory, ready=1.0, cpu=0.5))
    (bar,) = bars(found)
    assert bar.holds is holds


def test_without_peers_there_are_no_bars_against_them() -> None:
    assert bars(results("a", bussrv=[1])) == []


def test_scenarios_have_names_of_their_own_and_bars() -> None:
    names = [each.name for each in SCENARIOS]
    assert len(set(names)) == len(names)
    assert set("abcdefghijklmno") <= set(names)
    for each in SCENARIOS:
        servers = [workload.server for workload in each.workloads]
        assert len(set(servers)) == len(servers)


def test_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = results("a", bussrv=[300], redis=[100])
    found.add(("a", "redis"), replace(ONE, lost=7))
    found.fail(("a", "nats"), "refuses")
    scenario = Scenario("a", "title", [Workload(server, []) for server in ("bussrv", "redis", "nats", "mosquitto")])
    print_table(found, [scenario])
    print_bars(bars(results("a", bussrv=[1], redis=[100])))
    lines = capsys.readouterr().out.splitlines()
    assert any("redis" in line and "lost: 7" in line for line in lines)
    assert any("nats" in line and "refuses" in line for line in lines)
    assert any("mosquitto" in line and "was not measured" in line for line in lines)
    assert lines[-1].startswith("MISSED")
    said = json.loads(json.dumps(as_json({"processor": "one"}, found, [scenario], [])))
    assert [row["server"] for row in said["rows"]] == ["bussrv", "redis", "nats", "mosquitto"]
    assert said["rows"][0]["rate"] == 300
    assert said["rows"][2]["failed"] == "refuses"


def test_a_chart_is_a_picture_of_the_rates() -> None:
    scenario = Scenario("a", "1 & 2 < 3", [Workload("bussrv", []), Workload("redis", []), Workload("nats", [])])
    offered = Scenario("f", "offered", [Workload("bussrv", [], {"rate": 1000})])
    found = results("a", bussrv=[1_500_000], redis=[750_000])
    found.add(("f", "bussrv"), ONE)
    root = ElementTree.fromstring(chart(found, [scenario, offered], {"processor": "one"}))
    name = "{http://www.w3.org/2000/svg}"
    widths = [each.attrib["width"] for each in root.iter(f"{name}rect")]
    assert widths == ["100%", "480.0", "240.0"]
    texts = [each.text for each in root.iter(f"{name}text")]
    assert "a: 1 & 2 < 3" in texts
    assert "1.5 M" in texts
    assert "750.0 k" in texts
