"""The last value of each service, and how many are kept."""

from hypothesis import given
from hypothesis import strategies as st

from bussrv.bus.lastvalue import LastValues

steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcd"), st.binary(max_size=6)),
        st.tuples(st.sampled_from(["get", "forget"]), st.sampled_from("abcd")),
    ),
    max_size=30,
)


@given(steps, st.integers(0, 12))
def test_as_a_plain_list_has_it(steps, most):
    """The list has the least recently used service first."""
    values, model = LastValues(most), []
    evicted = 0
    for step, service, *payload in steps:
        if step == "put":
            values.put(service, *payload)
            model = [each for each in model if each[0] != service] + [(service, *payload)]
            while sum(len(each[1]) for each in model) > most:
                del model[0]
                evicted += 1
        elif step == "forget":
            values.forget(service)
            model = [each for each in model if each[0] != service]
        else:
            found = [each for each in model if each[0] == service]
            assert values.get(service) == (found[0][1] if found else b"")
            model = [each for each in model if each[0] != service] + found
        assert len(values) == sum(len(each[1]) for each in model)
    assert values.evicted == evicted
    assert [values.get(service) for service, _ in model] == [payload for _, payload in model]


def test_what_is_too_large_alone_takes_the_place_of_everything():
    values = LastValues(3)
    values.put("a", b"12")
    values.put("b", b"1234")
    assert (values.get("a"), values.get("b"), len(values)) == (b"", b"", 0)


def test_what_was_looked_at_lately_stays():
    values = LastValues(4)
    values.put("a", b"12")
    values.put("b", b"34")
    assert values.get("a") == b"12"
    values.put("c", b"5")
    assert (values.get("a"), values.get("b"), values.get("c")) == (b"12", b"", b"5")
