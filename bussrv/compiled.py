"""The compiled module, if it was built and is not switched off: it does what Python does here, faster.

It is ``bussrv/_speedups.c``. Each user says what Python does in its place: :mod:`bussrv.wire.objects`,
:mod:`bussrv.wire.forwarded`, and the modules ``compiled…`` of :mod:`bussrv.bus.routing`, beside ``batch`` and
``forward``. The tests in ``tests/equality`` hold both to the same results.
"""

from __future__ import annotations

import os
from types import ModuleType

INTERFACE = 9
"""Of the module that this code calls. A file that an earlier build left behind may have another one."""

SWITCH = "BUSSRV_PURE"
"""The environment variable that switches the module off, unless it is empty."""


def _find() -> ModuleType | None:
    if os.environ.get(SWITCH):
        return None
    try:
        from bussrv import _speedups
    except ImportError:
        return None
    return _speedups if _speedups.INTERFACE == INTERFACE else None


SPEEDUPS = _find()
"""The module; ``None``: everything is done in Python."""

HOT_PATH = "Python" if SPEEDUPS is None else "C"
"""The language that most objects are routed in."""
