"""Settings for Spark if the user or the host has no name, as in many containers. Importing this imports nothing of
Spark.
"""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Mapping
from pathlib import Path

LOOPBACK = "127.0.0.1"


def variables(master: str, given: Mapping[str, str]) -> dict[str, str]:
    """Environment variables that Spark needs besides those that are given.

    Java looks up the name of the host, also for a Spark that runs on this machine only. That fails in a container
    whose name is in no ``/etc/hosts``.

    :param master: where Spark runs. A cluster has to reach this machine, so the loopback address is not for it.
    """
    if not master.startswith("local") or "SPARK_LOCAL_IP" in given or "SPARK_LOCAL_HOSTNAME" in given:
        return {}
    return {} if _host_resolves() else {"SPARK_LOCAL_IP": LOOPBACK}


def _host_resolves() -> bool:
    try:
        socket.getaddrinfo(socket.gethostname(), None)
    except (OSError, UnicodeError):
        return False
    return True


def java_options(given: Mapping[str, str], scratch: Path) -> list[str]:
    """Options that Java needs: a home directory, if the user has none in the password database.

    Java then takes ``?`` for it, and Spark, which keeps packages below it, does not start.

    :param given: the environment.
    :param scratch: a directory that is removed afterwards.
    """
    if not _is_unknown():
        return []
    home = given.get("HOME", "")
    is_usable = home != "/" and Path(home).is_absolute() and Path(home).is_dir()
    quoted = (home if is_usable else str(scratch)).replace("\\", "\\\\").replace('"', '\\"')
    return [f'"-Duser.home={quoted}"']


def user_name(given: Mapping[str, str]) -> str | None:
    """The name that Hadoop gets for a user who is not in the password database; ``None``: it finds the name itself.

    :param given: the environment.
    """
    if not _is_unknown():
        return None
    return given.get("HADOOP_USER_NAME") or given.get("SPARK_USER") or str(os.geteuid())


def _is_unknown() -> bool:
    """Whether the user of this process has no entry in the password database."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return True
    return False
