"""The names of places in object stores, and what is said of them."""

from __future__ import annotations

import traceback

import pytest

from bussrv.audit.fold.stored import endpoint_in, is_stored, path_of
from bussrv.audit.spark.failure import in_one_line
from bussrv.errors import JournalError


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("s3://bucket/a/hall", "bucket/a/hall"),
        ("s3a://bucket/a/hall/", "bucket/a/hall"),
        ("s3://bucket", "bucket"),
        ("s3://a.b-c_d/a b%20?c#ä@:", "a.b-c_d/a b%20?c#ä@:"),
        ("s3://", None),
        ("s3:///hall", None),
        ("s3://key:secret@bucket/hall", None),
        ("s3a://secret@bucket/hall", None),
    ],
)
def test_urls(url: str, path: str | None) -> None:
    assert is_stored(url)
    if path is not None:
        assert path_of(url) == path
        return
    with pytest.raises(JournalError, match=r"is named s3://BUCKET/PATH, without credentials") as caught:
        path_of(url)
    assert "secret@" not in str(caught.value)


def test_addresses() -> None:
    other, own = {"AWS_ENDPOINT_URL": "https://store.example"}, {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9000/"}
    assert endpoint_in({}) == endpoint_in({"AWS_ENDPOINT_URL": ""}) == ("https", None)
    assert endpoint_in(other) == ("https", "store.example")
    assert endpoint_in(other | own) == ("http", "127.0.0.1:9000")
    for wrong in ("store.example:9000", "http://", "ftp://store.example"):
        with pytest.raises(JournalError, match="AWS_ENDPOINT_URL is not a URL such as"):
            endpoint_in({"AWS_ENDPOINT_URL": wrong})
    assert not any(map(is_stored, ("hdfs://s3/x", "file:///x", "s3:x", "/s3://x", "s3n://x/y")))


def test_what_a_worker_of_spark_complains_of_is_one_line() -> None:
    try:
        try:
            raise OSError("no such\nthing")
        except OSError as error:
            raise JournalError("cannot read it") from error
    except JournalError:
        told = f"An exception was thrown from the Python worker:\n{traceback.format_exc()}\n\tat java.Thread.run()"
    assert in_one_line(RuntimeError(told)) == "cannot read it"
    assert in_one_line(RuntimeError("An error occurred while calling o1.x\n: this\n\tat java.Thread")) == "this"
