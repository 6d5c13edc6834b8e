"""Files in an object store that speaks S3, at ``s3://BUCKET/PATH``, which Spark calls ``s3a://BUCKET/PATH``.

Keys and region come from where the clients of Amazon look for them: the environment, the profile, the role of the
machine. ``AWS_ENDPOINT_URL_S3`` or ``AWS_ENDPOINT_URL`` names a store that is not Amazon's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bussrv.errors import JournalError
from bussrv.journal import bounds

if TYPE_CHECKING:
    from pyarrow.fs import S3FileSystem

_SCHEMES = ("s3://", "s3a://")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def is_stored(location: str) -> bool:
    """Whether this is a place in an object store."""
    return location.startswith(_SCHEMES)


def read_stored(url: str) -> bytes:
    """The content of a segment.

    :raises JournalError: if it cannot be read.
    :raises TooLarge: if no segment is so large.
    """
    with reading(url) as (store, path), store.open_input_file(path) as file:
        # One byte more than a segment may have, to find that it has more.
        content: bytes = file.read(bounds.SEGMENT + 1)
        return content


@contextmanager
def reading(url: str) -> Iterator[tuple[S3FileSystem, str]]:
    """The store, and the path in it.

    :raises JournalError: instead of what the store raises, in one line.
    """
    path, endpoint = path_of(url), endpoint_in(os.environ)
    try:
        yield _opened(*endpoint), path
    # PyArrow raises ValueError for paths that cannot be.
    except (OSError, ValueError) as error:
        raise JournalError(f"cannot read the journal {url}: {' '.join(str(error).split())}") from error


def path_of(url: str) -> str:
    """The bucket and the path in it.

    :raises JournalError: if it names no bucket, or has credentials. The message does not repeat these.
    """
    path = url.partition("://")[2].rstrip("/")
    if not re.fullmatch(r"[\w.-]+", path.partition("/")[0]):
        raise JournalError(
            "a journal in an object store is named s3://BUCKET/PATH, without credentials: "
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    return path


def endpoint_in(environment: os._Environ[str] | dict[str, str]) -> tuple[str, str | None]:
    """The scheme and the address of the store; ``None``: Amazon's.

    :raises JournalError: if the address is not a URL.
    """
    name = next((each for each in _ENDPOINTS if environment.get(each)), None)
    if name is None:
        return "https", None
    parts = urlsplit(environment[name])
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise JournalError(f"{name} is not a URL such as https://store.example:9000")
    return parts.scheme, parts.netloc


@cache
def _opened(scheme: str, address: str | None) -> S3FileSystem:
    from pyarrow.fs import S3FileSystem

    return S3FileSystem(scheme=scheme, endpoint_override=address)
