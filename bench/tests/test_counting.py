"""The load generator counts what goes wrong, each thing as what it is, and nothing else."""

from __future__ import annotations

import json

import pytest
from compare_generator import Generator, GeneratorFailed, Measured

from bench.tests.relay import Fault, Relay

SUBSCRIBERS = 3
OPTIONS = {"seconds": 0.2, "warmup": 0.05, "window": 8, "give_up": 0.05, "payload": 32}


def is_struck(sequence: int) -> bool:
    """Which publications the mistakes are made with."""
    return sequence % 10 == 3


def struck(publications: int) -> int:
    return sum(map(is_struck, range(publications)))


def measure(generator: Generator, fault: Fault, **options: object) -> Measured:
    with Relay(fault) as relay:
        parties = [f"pub:objects:{relay.port}:1", f"sub:objects:{relay.port}:{SUBSCRIBERS}"]
        return generator.run(parties, {**OPTIONS, **options})


@pytest.mark.parametrize("chunk", [1, 7, 1000, 1 << 16])
def test_nothing_goes_wrong(generator: Generator, chunk: int) -> None:
    with Relay(chunk=chunk) as relay:
        parties = [f"pub:objects:{relay.port}:2", f"sub:objects:{relay.port}:{SUBSCRIBERS}"]
        measured = generator.run(parties, {**OPTIONS, "give_up": 5, "metadata": "100:2048"})
    assert measured.wrong == {}
    assert measured.all_publications > 10
    assert measured.all_deliveries == SUBSCRIBERS * measured.all_publications
    assert 0 < measured.latencies <= measured.all_deliveries
    assert 0 < measured.p50 <= measured.p99 <= measured.max


def test_loss(generator: Generator) -> None:
    measured = measure(generator, lambda sequence, frame: [] if is_struck(sequence) else [frame])
    lost = struck(measured.all_publications)
    assert lost
    assert measured.wrong == {"lost": SUBSCRIBERS * lost}
    assert measured.abandoned == lost
    assert measured.all_deliveries == SUBSCRIBERS * (measured.all_publications - lost)


def test_duplicates(generator: Generator) -> None:
    measured = measure(generator, lambda sequence, frame: [frame] * (3 if is_struck(sequence) else 1))
    assert measured.wrong == {"duplicates": SUBSCRIBERS * 2 * struck(measured.all_publications)}
    assert measured.all_deliveries == SUBSCRIBERS * measured.all_publications


@pytest.mark.parametrize("ids", [0, 1])
@pytest.mark.parametrize("format_name", ["objects", "objects-service"])
def test_mistakes_are_counted_with_and_without_ids(generator: Generator, format_name: str, ids: int) -> None:
    heads: list[bytes] = []

    def lose_or_double(sequence: int, frame: bytes) -> list[bytes]:
        heads.append(frame.partition(b"\0")[0])
        return [] if is_struck(sequence) else [frame] * (1 + is_struck(sequence + 1))

    with Relay(lose_or_double) as relay:
        parties = [f"pub:{format_name}:{relay.port}:1", f"sub:objects:{relay.port}:{SUBSCRIBERS}"]
        measured = generator.run(parties, {**OPTIONS, "ids": ids, "metadata": "200:200"})
    count = measured.all_publications
    doubled = sum(is_struck(sequence + 1) for sequence in range(count))
    assert measured.wrong == {"lost": SUBSCRIBERS * struck(count), "duplicates": SUBSCRIBERS * doubled}
    assert struck(count)
    assert {"id" in json.loads(head) for head in heads} == {bool(ids)}
    assert {len(head) for head in heads} == {200 if ids else 200 - len(',"id":"123456789012345678901234"')}
    assert len({json.loads(head).get("id") for head in heads}) == (len(heads) if ids else 1)


def test_requests_need_ids(generator: Generator) -> None:
    with pytest.raises(GeneratorFailed, match="requests need ids"):
        generator.run(["req:objects:1:1", "prov:objects:1:1"], {**OPTIONS, "ids": 0})


def test_disorder(generator: Generator) -> None:
    held: list[bytes] = []

    def swap(sequence: int, frame: bytes) -> list[bytes]:
        if is_struck(sequence):
            held.append(frame)
            return []
        return [frame, held.pop()] if held else [frame]

    measured = measure(generator, swap)
    swapped = struck(measured.all_publications) - len(held)
    assert swapped
    assert measured.wrong.pop("disordered") == SUBSCRIBERS * swapped
    assert measured.wrong.get("lost", 0) == SUBSCRIBERS * len(held)


def test_damage(generator: Generator) -> None:
    measured = measure(
        generator, lambda sequence, frame: [frame[:-1] + b"!" if is_struck(sequence) else frame], payload=24
    )
    count = SUBSCRIBERS * struck(measured.all_publications)
    assert measured.wrong == {"corrupt": count, "lost": count}


def test_what_was_not_asked_for(generator: Generator) -> None:
    with Relay() as relay:
        parties = [f"pub:objects:{relay.port}:1", f"sub:objects:{relay.port}:1:1", f"sub:objects:{relay.port}:1:3"]
        measured = generator.run(parties, {**OPTIONS, "classes": 2})
    assert measured.wrong == {"stray": measured.all_publications // 2}


def test_a_server_that_ends_a_connection(generator: Generator) -> None:
    with Relay() as relay:
        port = relay.port
    with pytest.raises(GeneratorFailed, match="connect to port"):
        generator.run([f"sub:objects:{port}:1"], OPTIONS)


def test_a_server_that_says_nothing_of_use(generator: Generator) -> None:
    with Relay() as relay, pytest.raises(GeneratorFailed, match="not ready in time"):
        generator.run([f"sub:nats:{relay.port}:1"], {**OPTIONS, "patience": 0.1})
