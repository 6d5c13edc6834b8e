"""An object store for tests: ``moto_server``, a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote
from urllib.request import Request, urlopen

import pytest
from pyarrow.fs import LocalFileSystem, S3FileSystem, copy_files

PATIENCE = 120.0

KEYS = {"AWS_ACCESS_KEY_ID": "auditor", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}


class Store:
    """``moto_server``, which speaks S3 at a free port of this machine.

    :ivar variables: the environment of its clients.
    """

    def __init__(self) -> None:
        command = [sys.executable, "-u", "-m", "moto.server", "-p", "0"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self._said: list[str] = []
        self._is_listening = threading.Event()
        threading.Thread(target=self._hear, daemon=True).start()
        assert self._is_listening.wait(PATIENCE)
        self.address = re.findall(r"Running on (http://127\.0\.0\.1:\d+)", "".join(self._said))[0]
        self.variables = {**KEYS, "AWS_ENDPOINT_URL": self.address}

    def _hear(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line)
            if "Running on" in line:
                self._is_listening.set()
        self._is_listening.set()

    def reads(self) -> list[str]:
        """The paths of the files that were read since this was asked the last time, sorted."""
        said, self._said[:] = "".join(self._said), []
        return sorted(map(unquote, re.findall(r"GET (/bus/\S+) HTTP", said)))

    def put(self, directory: Path, path: str) -> None:
        """Copy a directory into the bucket ``bus``."""
        client = S3FileSystem(
            access_key="auditor", secret_key="secret", endpoint_override=self.address, allow_bucket_creation=True
        )
        client.create_dir("bus")
        copy_files(str(directory), f"bus/{path}", LocalFileSystem(), client)

    def admit_nobody(self) -> None:
        request = Request(f"{self.address}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"}, method="POST")
        with urlopen(request) as answer:
            assert answer.status == 200

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)


@pytest.fixture
def store() -> Iterator[Store]:
    if find_spec("moto") is None:
        pytest.skip("moto is not installed: it comes with the extra `fuzz`, as `make test-full` has it")
    started = Store()
    yield started
    started.stop()
