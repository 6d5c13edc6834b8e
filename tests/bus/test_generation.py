"""Caches of plans obey the generation of the audience."""

from bussrv.bus.generation import Generation


def test_every_cache_is_empty_when_a_generation_ends():
    generation = Generation()
    caches = [generation.cache(), generation.cache()]
    for each in caches:
        each["plan"] = "of the first generation"
    generation.end()
    assert (caches, generation.number) == ([{}, {}], 1)
