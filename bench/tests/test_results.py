from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from bar import print_bars
from compare import ours
from compare_bars import BEST_PEER, REQUIRED, bars
from compare_chart import chart
from compare_generator import Measured, read_measured
from compare_results import Idle, Results, per_busiest, per_cpu, rate
from compare_scenarios import SCENARIOS, Scenario, Workload
from compare_servers import PEERS
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


IDS = ("without ids", "with ids", 0.85)


@pytest.mark.parametrize(
    ("scenario", "ours", "theirs", "limit", "changed"),
    [
        ("a", "bussrv", "nats", 2.5, "server_cpu"),
        ("b", "bussrv", "nats", 1.0, "seconds"),
        ("c", "bussrv", "redis", 1.2, "seconds"),
        ("d", "bussrv", "redis", 2.5, "server_cpu"),
        ("d-rich", "bussrv", "redis", 0.8, "server_cpu"),
        ("e", "bussrv", "redis", 0.9, "server_cpu"),
        ("g", "bussrv", "mosquitto", 0.5, "server_cpu"),
        ("i", "bussrv", "nats", 3.0, "server_cpu"),
        ("j", "bussrv", "plain select", 2.0, "seconds"),
        ("l", "three linked", "bussrv", 0.5, "busiest_cpu"),
        ("n", "bussrv", "redis, durable", 0.2, "server_cpu"),
        *((f"{scenario}-noid", *IDS, "server_cpu") for scenario in ("a", "d", "d-rich", "e", "i")),
        ("l-noid", *IDS, "busiest_cpu"),
    ],
)
def test_a_bar_for_the_least_ratio(scenario: str, ours: str, theirs: str, limit: float, changed: str) -> None:
    for factor, holds in ((0.999, False), (1.001, True)):
        found = Results()
        found.add((scenario, theirs), ONE)
        found.add((scenario, ours), replace(ONE, **{changed: getattr(ONE, changed) / (limit * factor)}))
        (bar,) = bars(found)
        assert bar.holds is holds
        assert bar.what.startswith(f"{scenario}: at least {limit:g} x {theirs} (is {limit * factor:.2f} x)")


@pytest.mark.parametrize(("changed", "limit"), [("server_cpu", 1.8), ("p99", 1.1)])
def test_a_bar_for_the_highest_ratio(changed: str, limit: float) -> None:
    for factor, missed in ((0.999, []), (1.001, [f"f: at most {limit:g} x mosquitto"])):
        found = Results()
        found.add(("f", "mosquitto"), ONE)
        found.add(("f", "bussrv"), replace(ONE, **{changed: getattr(ONE, changed) * limit * factor}))
        assert len(bars(found)) == 2
        assert [bar.what.partition(" (")[0] for bar in bars(found) if not bar.holds] == missed


def test_a_server_that_delivers_nothing_misses_the_bar_for_cpu() -> None:
    found = Results()
    found.add(("f", "mosquitto"), ONE)
    found.add(("f", "bussrv"), replace(ONE, deliveries=0))
    assert [bar.holds for bar in bars(found)] == [False, True]


def test_the_best_peer_is_the_best_by_the_figure_of_the_bar() -> None:
    for scenario, best in (("a", "redis"), ("c", "nats")):
        found = Results()
        found.add((scenario, "bussrv"), ONE)
        found.add((scenario, "redis"), replace(ONE, server_cpu=0.1))
        found.add((scenario, "nats"), replace(ONE, seconds=0.2))
        (bar,) = bars(found)
        assert f"x {best} (is 0.10 x)" in bar.what


def test_bars_are_of_workloads_that_scenarios_have() -> None:
    names = {(each.name, workload.name) for each in SCENARIOS for workload in each.workloads}
    for each in REQUIRED:
        against = PEERS if each.against == BEST_PEER else [each.against]
        assert {(each.scenario, name) for name in (each.workload, *against)} <= names


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
        workloads = [workload.name for workload in each.workloads]
        assert len(set(workloads)) == len(workloads)


def test_what_is_compared_without_ids_differs_in_nothing_else() -> None:
    scenarios = [each for each in SCENARIOS if each.name.endswith("-noid")]
    usual = {each.name: each for each in SCENARIOS}
    assert len(scenarios) == 6
    for each in scenarios:
        without, with_ids = each.workloads
        assert not each.quick
        assert replace(without, options=with_ids.options, label=with_ids.label) == with_ids
        assert dict(without.options) == {**with_ids.options, "ids": 0}
        first = usual[each.name.removesuffix("-noid")].workloads[0]
        assert replace(with_ids, label="") == first


def test_a_fault_of_ours_is_one_by_any_name_of_the_workload() -> None:
    workloads = [Workload("bussrv", [], label="without ids"), Workload("redis", [])]
    assert ours([Scenario("a", "title", workloads)]) == {("a", "without ids")}


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
    itself = Scenario("d-noid", "one server", [Workload("bussrv", [], label="with ids")])
    found.add(("d-noid", "with ids"), ONE)
    root = ElementTree.fromstring(chart(found, [scenario, offered, itself], {"processor": "one"}))
    name = "{http://www.w3.org/2000/svg}"
    widths = [each.attrib["width"] for each in root.iter(f"{name}rect")]
    assert widths == ["100%", "480.0", "240.0"]
    texts = [each.text for each in root.iter(f"{name}text")]
    assert "a: 1 & 2 < 3" in texts
    assert "1.5 M" in texts
    assert "750.0 k" in texts
