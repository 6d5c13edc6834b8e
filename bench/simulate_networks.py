"""How much crosses a network of 100 servers and 100,000 sessions, by links and by NATS: a table.

Nothing is measured: figures follow from a network that is drawn at random, and from sizes of the product's own codecs.

    python bench/simulate_networks.py --seed 1
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from network_hops import INTO, NODE_TO_NODE, OUT, RECEIVED, SERVERS, Crossing, mesh, nats, tree
from networks import Shape, draw

MEGA = 1e6

Row = Callable[[Crossing], float]

ROWS: Mapping[str, Row] = {
    "servers send, objects a second": lambda it: it.objects[SERVERS],
    "into NATS": lambda it: it.objects[INTO],
    "between servers of NATS": lambda it: it.objects[NODE_TO_NODE],
    "out of NATS": lambda it: it.objects[OUT],
    "servers receive": lambda it: it.objects[RECEIVED],
    "of these, wanted there": lambda it: it.needed,
    "the busiest server sends and receives": lambda it: max(it.busiest.values()),
    "servers send, MB a second": lambda it: it.size[SERVERS] / MEGA,
    "into NATS, MB": lambda it: it.size[INTO] / MEGA,
    "between servers of NATS, MB": lambda it: it.size[NODE_TO_NODE] / MEGA,
    "out of NATS, MB": lambda it: it.size[OUT] / MEGA,
    "the busiest server sends and receives, MB": lambda it: max(it.busiest_size.values()) / MEGA,
    "advertisements of sessions and services, MB": lambda it: it.told / MEGA,
    "heartbeats and closed subjects out of NATS, MB": lambda it: it.beats / MEGA,
}


def designs(shape: Shape, seed: int) -> dict[str, Crossing]:
    """The traffic of one and the same network, by how its servers are joined, and by who observes it."""
    network = draw(shape, seed)
    some = draw(replace(shape, all_sessions=3, type_servers=5), seed)
    each = draw(replace(shape, all_sessions=3, type_servers=shape.servers), seed)
    return {
        "links, each with each": mesh(network),
        "links, a tree": tree(network),
        "NATS, all to all": nats(network, has_interest=False),
        "NATS, by interest": nats(network, has_interest=True),
        "and observers on 8 servers": nats(some, has_interest=True),
        "on each server": nats(each, has_interest=True),
    }


def table(found: Mapping[str, Crossing]) -> list[str]:
    """The lines of the table, in Markdown."""
    lines = [_line(["", *found]), "|---" * (len(found) + 1) + "|"]
    return lines + [_line([name, *(_figure(row(each)) for each in found.values())]) for name, row in ROWS.items()]


def _line(cells: Sequence[str]) -> str:
    return "|".join(["", *(f" {cell} " if cell else " " for cell in cells), ""])


def _figure(value: float) -> str:
    """With three digits."""
    if not value:
        return ""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.3g}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--servers", type=int, default=Shape.servers)
    parser.add_argument("--sessions", type=int, default=Shape.sessions)
    options = parser.parse_args(arguments)
    print("\n".join(table(designs(Shape(servers=options.servers, sessions=options.sessions), options.seed))))


if __name__ == "__main__":
    main()
