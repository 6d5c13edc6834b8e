"""Bytes in chunks of any size, and what a reader makes of them."""

from hypothesis import strategies as st

from bussrv.errors import RemoteProtocolError


def in_bytes(data):
    return [data[index : index + 1] for index in range(len(data))]


def cut(data, places):
    """``data`` in chunks that end at these places; some may be empty."""
    places = sorted(min(place, len(data)) for place in places)
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


def chunks_of(data):
    """``data``, cut anywhere."""
    return st.lists(st.integers(0, len(data)), max_size=8).map(lambda places: cut(data, places))


def read(reader, chunks):
    """The events that each chunk brought, how much the reader held behind each, and the error that ended it, or
    ``None``."""
    events, held = [], []
    for chunk in chunks:
        reader.feed(chunk)
        events.append([])
        try:
            while (event := reader.next_event()) is not None:
                events[-1].append(event)
        except RemoteProtocolError as error:
            return events, held, error
        held.append(len(reader))
    return events, held, None
