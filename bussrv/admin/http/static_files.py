"""Static files: the page at ``/``, and everything that it loads from ``/static/``. Read once, and kept in memory."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from bussrv.admin.http.answers import Answer, Problem, is_known
from bussrv.admin.http.routes import Call

DIRECTORY = Path(__file__).parents[1] / "static"
INDEX = "index.html"

_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}


@lru_cache
def read_files(directory: Path = DIRECTORY) -> dict[str, Answer]:
    """The answer for each file of a directory, by its path there. Files of other kinds are left out."""
    files = (each for each in sorted(directory.rglob("*")) if each.suffix in _MEDIA_TYPES and each.is_file())
    return {each.relative_to(directory).as_posix(): _answer(each) for each in files}


def _answer(path: Path) -> Answer:
    body = path.read_bytes()
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    return Answer(body, _MEDIA_TYPES[path.suffix], headers={"ETag": tag, "Cache-Control": "no-cache"})


async def index(call: Call) -> Answer:
    """The dashboard."""
    return _file(call, INDEX)


async def static_file(call: Call) -> Answer:
    """A file that the dashboard loads."""
    return _file(call, call.path["file"])


def _file(call: Call, name: str) -> Answer:
    answer = read_files().get(name)
    if answer is None:
        raise Problem("not-found")
    if is_known(answer.headers["ETag"], call.headers.get("if-none-match", "")):
        return Answer(b"", status=304, headers=answer.headers)
    return answer
