"""The pages on monitoring and metrics, and the files for Prometheus and Grafana, are held against the code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bussrv.admin.figures.health import CHECKS
from bussrv.admin.figures.metrics import CODES, METRICS
from tests.docs.commands import says
from tests.docs.pages import ROOT, blocks, rows
from tests.docs.test_how_to import commands
from tests.forked import ForkedServer

PAGE = "docs/how-to/monitor.md"
ALERTS = ROOT / "contrib/prometheus/alerts.yml"
BOARD = ROOT / "contrib/grafana/bussrv.json"
PROCESS = {
    *("process_cpu_seconds_total", "process_resident_memory_bytes", "process_virtual_memory_bytes"),
    *("process_start_time_seconds", "process_open_fds", "process_max_fds"),
}
LABELS = {"job": (), "instance": (), "le": (), **{label: () for metric in METRICS for label in metric.labels}}

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="there is no promtool: on Debian it is in the package prometheus"
)


def series() -> set[str]:
    """The names that a scrape has."""
    found = set(PROCESS) | {"up", "ALERTS"}
    for metric in METRICS:
        is_histogram = metric.kind == "histogram"
        found |= {f"{metric.name}{end}" for end in ("_bucket", "_sum", "_count")} if is_histogram else {metric.name}
    return found


def board_expressions() -> Iterator[str]:
    def found(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from (each for name, each in value.items() if name == "expr")
            yield from (value["query"]["query"] for _ in "x" if isinstance(value.get("query"), dict))
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from found(each)

    yield from found(json.loads(BOARD.read_text()))


def alert_expressions() -> list[str]:
    return re.findall(r"^        expr: (.*)$", ALERTS.read_text(), re.MULTILINE)


def test_the_files_name_metrics_labels_and_codes_that_there_are() -> None:
    expressions = [*alert_expressions(), *board_expressions()]
    assert len(expressions) > 50
    for each in expressions:
        without_texts = re.sub(r'"[^"]*"', '""', each)
        named = set(re.findall(r"\b((?:bussrv|process)_\w+|up)\b", without_texts))
        assert named, each
        assert named <= series(), each
        assert set(re.findall(r"(\w+)\s*(?:=~|!=|=)\s*\"", each)) <= LABELS.keys(), each
        for codes in re.findall(r'code=~?"([^"]*)"', each):
            assert set(codes.split("|")) <= set(CODES), each


def test_every_metric_is_on_the_board_or_in_a_rule() -> None:
    text = " ".join([*alert_expressions(), *board_expressions()])
    assert [metric.name for metric in METRICS if metric.name not in text] == []


def test_the_page_of_metrics_is_the_table() -> None:
    listed = [row for row in rows("docs/reference/metrics.md") if len(row) == 4][1:]
    assert listed == [
        [f"`{each.name}`", each.kind, ", ".join(f"`{label}`" for label in each.labels), each.help] for each in METRICS
    ]
    checks = [row[0].strip("`") for row in rows("docs/reference/metrics.md") if len(row) == 3][1:]
    assert checks == list(CHECKS)


def test_names_follow_the_conventions_of_prometheus() -> None:
    for each in METRICS:
        assert re.fullmatch(r"bussrv_[a-z_]+", each.name)
        assert each.name.endswith("_total") == (each.kind == "counter")
        assert each.kind != "histogram" or each.name.endswith("_seconds")
        assert not re.search(r"milli|micro|_ms|_kb|_mb|minutes|hours|days", each.name)
        assert not set(each.labels) & {"session", "peer", "actor", "service", "routing_id"}
        assert re.fullmatch(r"[A-Z].*\.", each.help)
    assert len({each.name for each in METRICS}) == len(METRICS)


@pytest.mark.processes
@needs_promtool
def test_promtool_finds_nothing_wrong(tmp_path: Path) -> None:
    for command in ("check rules alerts.yml", "check config prometheus.yml", "test rules alerts.test.yml"):
        promtool(command, ALERTS.parent)
    # What the board asks for, as rules.
    asked = [each for each in board_expressions() if not each.startswith("label_values")]
    lines = ["groups:", "  - name: board", "    rules:"]
    for number, each in enumerate(asked):
        plain = each.replace("$__rate_interval", "5m").replace("$instance", ".*").replace("$job", "bussrv")
        lines += [f"      - record: board:{number}", f"        expr: {json.dumps(plain)}"]
    (tmp_path / "board.yml").write_text("\n".join(lines) + "\n")
    promtool("check rules board.yml", tmp_path)


def promtool(command: str, place: Path) -> None:
    ran = subprocess.run(["promtool", *command.split()], cwd=place, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.processes
@needs_promtool
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_commands_of_the_page_and_a_scrape(tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal", ["--log-format", "json"]) as server:
        port = server.addresses["admin"][1]
        asked = [each for block in blocks(PAGE, "console") for each in commands(block)]
        for block in re.findall(r"^   ```console\n(.*?)^   ```$", (ROOT / PAGE).read_text(), re.MULTILINE | re.DOTALL):
            asked += commands(re.sub("^   ", "", block, flags=re.MULTILINE))
        assert len(asked) == 5
        for command, wanted in asked:
            said = run(command.replace(":7280", f":{port}"))
            assert says(said.rstrip("\n"), wanted.rstrip("\n")), command
        scrape = f"curl -sf http://127.0.0.1:{port}/metrics | promtool check metrics"
        subprocess.run(["sh", "-c", scrape], check=True, timeout=30, capture_output=True)
        (script,) = blocks(PAGE, "sh")
        log = tmp_path / "log"
        log.write_text("".join(f"{line}\n" for line in server.lines))
        searched = [line for line in script.splitlines() if line.startswith("journalctl")]
        found = [run(line.replace("journalctl -u bussrv -o cat", f"cat {log}")) for line in searched]
        assert len(found) == 4
        assert [len(each.splitlines()) for each in found] == [0, 0, 0, 1]
        server.stop()


def run(command: str) -> str:
    # grep ends with 1 when it finds nothing.
    ran = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ran.returncode in (0, 1), ran.stderr
    return ran.stdout
