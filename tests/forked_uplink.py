"""``bussrv uplink`` in a process that is forked from one that has imported Kafka and NATS: that takes half a second."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import bussrv.uplink.kafka.running
import bussrv.uplink.nats.program  # noqa: F401
from bussrv.cli.main import main
from bussrv.testing.uplink import RunningUplink
from tests.forked import ForkedProcess, forked


class ForkedUplink(RunningUplink):
    """An uplink that is not started as a user would, but is one from then on."""

    def _spawn(self, arguments: Sequence[str]) -> ForkedProcess:  # type: ignore[override]
        process = forked(["uplink", *arguments], os.environ, __name__)
        process.stderr = process.stdout
        return process


if __name__ == "__main__":
    sys.exit(main())
