"""Who gets an object."""

from tests.bus.harness import NO_ECHO, member
from tests.bus.links.fabric import provide
from tests.formats.network import drain


def test_without_echo_a_member_does_not_get_its_own_request(harness):
    asking, bystander, provider = member(harness, NO_ECHO), member(harness, NO_ECHO), member(harness)
    provider.register("tv")
    assert asking.send({"event": "services/request", "name": "tv"}) == 2
    harness.bus.flush()
    assert (len(asking.got), len(bystander.got), len(provider.got)) == (0, 1, 1)


def test_providers_take_turns_and_others_merely_observe(harness):
    asking, observing = member(harness, NO_ECHO), member(harness)
    first, second = member(harness), member(harness)
    first.register("tv")
    second.register("tv")
    for _ in range(4):
        assert asking.send({"event": "services/request", "name": "tv"}) == 2
    harness.bus.flush()
    assert [len(each.got) for each in (first, second, observing)] == [2, 2, 4]


def test_a_provider_that_does_not_want_it_is_passed_over(harness):
    asking = member(harness, NO_ECHO)
    deaf, provider = member(harness, {"receive": "none"}), member(harness)
    deaf.register("tv")
    provider.register("tv")
    for _ in range(3):
        assert asking.send({"event": "services/request", "name": "tv"}) == 1
    harness.bus.flush()
    assert len(provider.got) == 3


def test_without_echo_a_requester_is_not_chosen_as_provider(harness):
    asking, other = member(harness, NO_ECHO), member(harness, NO_ECHO)
    asking.register("tv")
    other.register("tv")
    for _ in range(2):
        assert asking.send({"event": "services/request", "name": "tv"}) == 1
    harness.bus.flush()
    assert (len(asking.got), len(other.got)) == (0, 2)


def test_turns_begin_anew_with_the_service(harness):
    asking = member(harness, NO_ECHO)
    first, second = member(harness), member(harness)
    for _ in range(2):
        first.register("tv")
        second.register("tv")
        asking.send({"event": "services/request", "name": "tv"})
        first.unregister("tv")
        second.unregister("tv")
    harness.bus.flush()
    assert [len(each.got) for each in (first, second)] == [2, 0]
    assert not harness.bus.audience.provider_round


def test_remote_providers_are_asked_in_turn_with_local_ones(network, scene):
    member, attic, cellar = scene
    provider = network.member(receive_mode="no_echo")
    provider.send({"event": "services/register", "name": "tv"})
    provide(cellar, "ann", "tv")
    drain([*scene, provider])
    for number in range(4):
        member.send({"event": "services/request", "name": "tv", "id": number})
    asked = [head["id"] for head in provider.heads()], [head["id"] for head in cellar.heads()]
    assert sorted(asked) == [[0, 2], [1, 3]]
    assert attic.heads() == []
