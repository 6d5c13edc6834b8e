"""The names of services are sorted whenever somebody asks, however many have changed since the last time."""

from types import SimpleNamespace
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.bus.services import directory
from bussrv.bus.services.directory import Directory
from bussrv.journal.record import Stamped

_names = st.sampled_from([f"service {number}" for number in range(12)])
_steps = st.lists(st.lists(st.tuples(st.booleans(), _names), max_size=10), max_size=8)


@given(st.sets(_names), _steps, st.integers(0, 4), st.integers(0, 8))
def test_they_are_sorted_when_somebody_asks(
    before: set[str], steps: list[list[tuple[bool, str]]], few: int, most: int
) -> None:
    services = dict.fromkeys(before, 0)
    found = Directory(SimpleNamespace(state=SimpleNamespace(services=services)))  # type: ignore[arg-type]
    shown: list[tuple[list[str], list[str]]] = []
    with patch.multiple(directory, FEW=few, MOST_CHANGED=most):
        for changes in steps:
            for is_provided, name in changes:
                kind = ev.ServiceRegistered if is_provided else ev.ServiceUnregistered
                services.pop(name, None)
                if is_provided:
                    services[name] = 0
                found.registry_changed(Stamped(1, 1, kind(service=name)))
                assert len(found._changed) <= most
            shown.append((found.names, sorted(services)))
    assert all(names == expected for names, expected in shown), "a list that was shown never changes"
