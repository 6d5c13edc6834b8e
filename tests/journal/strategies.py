"""Hypothesis strategies for registry events, made from what their classes say of themselves."""

import types
import typing

import msgspec
from hypothesis import strategies as st

from bussrv.events import EVENT_CLASSES
from bussrv.journal.record import Record

LAST_MOMENT = 253_402_300_799_999_999
"""The last microsecond of the year 9999."""

integers = st.integers(-(2**63), 2**64 - 1)
moments = st.integers(0, LAST_MOMENT)

json_values = st.recursive(
    st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)

PLAIN = {str: st.text(max_size=20), int: integers, bool: st.booleans(), type(None): st.none(), typing.Any: json_values}


def of_type(hint):
    """Everything that a field annotated with ``hint`` may hold."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if origin in (typing.Union, types.UnionType):
        return st.one_of(map(of_type, arguments))
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin is tuple and arguments[-1] is not ...:
        return st.tuples(*map(of_type, arguments))
    if origin is tuple:
        return st.lists(of_type(arguments[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(of_type(arguments[0]), of_type(arguments[1]), max_size=3)
    return structs(hint)


def structs(cls):
    """Instances of a msgspec Struct; fields with a default may be left out."""
    required, optional = {}, {}
    for field in msgspec.structs.fields(cls):
        (required if field.required else optional)[field.name] = of_type(field.type)
    return st.fixed_dictionaries(required, optional=optional).map(lambda fields: cls(**fields))


events = st.one_of([structs(cls) for cls in EVENT_CLASSES])

hashes = st.integers(0, 2**256 - 1).map("{:064x}".format)

records = st.builds(
    Record,
    seq=st.integers(1, 2**63 - 1),
    time=moments,
    mono=st.integers(0, 2**63),
    server=st.text(max_size=20),
    boot=st.text(max_size=20),
    event=events,
    prev=hashes,
)
