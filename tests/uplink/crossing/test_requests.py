"""Open requests: each asker learns once that its provider is gone, unless its own answer came."""

from bussrv.uplink.crossing.requests import LONGEST_ID, MOST_OPEN, Asked, OpenRequests


def test_askers_with_one_id_are_told_apart():
    requests = OpenRequests()
    for asker in ("x", "y", "z"):
        requests.went_out(Asked("1", asker, "b"))
    requests.went_out(Asked("1", "w", "c"))
    requests.answered("1", ["x"])
    requests.answered(None, None)
    requests.answered("2", ["y"])
    assert sorted(each.asker for each in requests.lost("b")) == ["y", "z"]
    assert list(requests.lost("b")) == []
    requests.answered("1", None)
    assert list(requests.lost("c")) == []


def test_ids_take_no_more_memory_than_said():
    requests = OpenRequests()
    for number in range(MOST_OPEN + 10):
        requests.came_in(number, "b")
        requests.went_out(Asked(number, "x", "b"))
    requests.came_in("x" * (LONGEST_ID + 1), "b")
    requests.went_out(Asked("x" * (LONGEST_ID + 1), "x", "b"))
    assert requests.asker_of(9) is None
    assert requests.asker_of(10) == "b"
    assert requests.asker_of("x" * (LONGEST_ID + 1)) is None
    assert len(list(requests.lost("b"))) == MOST_OPEN
