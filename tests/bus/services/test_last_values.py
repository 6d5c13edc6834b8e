"""The last value of each service, and how many are kept."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from bussrv.bus.services.last_values import LastValues

steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcd"), st.binary(max_size=6)),
        st.tuples(st.sampled_from(["get", "forget"]), st.sampled_from("abcd")),
    ),
    max_size=30,
)


def bounded(most, largest=100):
    return LastValues(most, largest, Counter())


@given(steps, st.integers(0, 12), st.integers(0, 6))
def test_as_a_plain_list_has_it(steps, most, largest):
    """The list has the least recently used service first."""
    counters, wanted = Counter(), Counter()
    values, model = LastValues(most, largest, counters), []
    for step, service, *payload in steps:
        if step == "put":
            values.put(service, *payload)
            model = [each for each in model if each[0] != service]
            if len(*payload) > largest:
                wanted["last-value-too-large"] += 1
                continue
            model.append((service, *payload))
            while sum(len(each[1]) for each in model) > most:
                del model[0]
                wanted["last-value-evicted"] += 1
        elif step == "forget":
            values.forget(service)
            model = [each for each in model if each[0] != service]
        else:
            found = [each for each in model if each[0] == service]
            assert values.get(service) == (found[0][1] if found else b"")
            model = [each for each in model if each[0] != service] + found
        assert len(values) == sum(len(each[1]) for each in model)
    assert counters == wanted
    assert [values.get(service) for service, _ in model] == [payload for _, payload in model]


def test_a_value_larger_than_the_total_displaces_everything():
    values = bounded(3)
    values.put("a", b"12")
    values.put("b", b"1234")
    assert (values.get("a"), values.get("b"), len(values)) == (b"", b"", 0)


def test_a_value_that_is_too_large_displaces_the_one_before():
    values = bounded(100, 3)
    values.put("a", b"12")
    values.put("a", b"1234")
    assert (values.get("a"), len(values)) == (b"", 0)


def test_what_was_looked_at_lately_stays():
    values = bounded(4)
    values.put("a", b"12")
    values.put("b", b"34")
    assert values.get("a") == b"12"
    values.put("c", b"5")
    assert (values.get("a"), values.get("b"), values.get("c")) == (b"12", b"", b"5")


@given(steps, st.lists(st.binary(max_size=6), min_size=1, max_size=4), st.integers(0, 12), st.integers(0, 6))
def test_a_run_comes_to_the_same_as_its_payloads(steps, payloads, most, largest):
    runs, ones = bounded(most, largest), bounded(most, largest)
    for values in (runs, ones):
        for step, service, *payload in steps:
            getattr(values, step)(service, *payload)
    runs.put_batch("a", payloads)
    for payload in payloads:
        ones.put("a", payload)
    assert vars(runs) == vars(ones)
