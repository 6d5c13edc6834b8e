"""The options of a reader, as Spark gives them."""

from __future__ import annotations

import pytest

from bussrv.audit.source.options import EARLIEST, LATEST, ReadOptions, read_options
from bussrv.errors import BadValue


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "no journal is named"),
        ({"path": ""}, "no journal is named"),
        ({"paths": "/a,/b"}, "paths is not a list of directories in JSON"),
        ({"path": "/", "startingAt": "yesterday"}, "startingAt is 'yesterday'"),
        ({"path": "/", "startingAt": "0"}, "startingAt is '0'"),
        ({"path": "/", "maxBytesPerTrigger": "-1"}, "maxBytesPerTrigger is '-1'"),
        ({"path": "/", "maxBytesPerTrigger": "٣"}, "maxBytesPerTrigger is '٣'"),
        ({"path": "/", "failOnDataLoss": "maybe"}, "failOnDataLoss is 'maybe'"),
        ({"path": "/", "sealed": "1"}, "sealed is '1'"),
    ],
)
def test_options_that_cannot_be(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadValue, match=sentence):
        read_options(options)


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ({"path": "/hall"}, ReadOptions(("/hall",))),
        ({"path": "/hall", "startingAt": "latest"}, ReadOptions(("/hall",), LATEST)),
        ({"paths": '["/hall", "/barn"]', "startingAt": "2001"}, ReadOptions(("/hall", "/barn"), 2001)),
        (
            {"path": "/hall", "failOnDataLoss": "False", "maxBytesPerTrigger": "70", "sealed": "true"},
            ReadOptions(("/hall",), EARLIEST, False, 70, True),
        ),
    ],
)
def test_options_are_read(options: dict[str, str], read: ReadOptions) -> None:
    assert read_options(options) == read
