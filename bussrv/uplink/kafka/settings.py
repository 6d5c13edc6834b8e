"""The settings of an uplink to Kafka, and their checks."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from bussrv.errors import ConfigError
from bussrv.uplink.figures import metrics_address
from bussrv.uplink.kafka.cluster import Cluster, Sasl, TlsFiles, parse

PASSWORD = "BUSSRV_KAFKA_PASSWORD"
"""The variable of the environment that may have the password, in place of a file."""

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True)
class Events:
    """What ``--events`` asks for.

    :ivar journal: the directory of the journal.
    """

    journal: Path
    topic: str
    max_bytes: int
    from_oldest: bool


@dataclass(frozen=True)
class Settings:
    """The settings of an uplink.

    :ivar metrics: host and port for Prometheus.
    """

    cluster: Cluster
    events: Events | None
    metrics: tuple[str, int] | None
    log_as_json: bool


def settings_of(
    url: str,
    *,
    events: bool,
    journal: Path | None,
    topic: str,
    from_oldest: bool,
    max_bytes: int,
    kafka_sasl: str,
    kafka_user: str | None,
    kafka_password_file: str | None,
    kafka_ca: Path | None,
    kafka_certificate: Path | None,
    kafka_key: Path | None,
    insecure: bool,
    metrics: str | None,
    log_format: str,
) -> Settings:
    """The settings that options of ``bussrv uplink`` say.

    :param kafka_password_file: the password in the file.
    :raises ConfigError: an option cannot be used, or is missing.
    """
    if not events:
        raise ConfigError("there is nothing to do: say --events")
    if journal is None:
        raise ConfigError("--events needs --journal: the directory of the journal")
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise ConfigError(f"--topic {topic}: a name of a topic has letters, digits, and . _ - only, at most 249")
    sasl = _sasl(kafka_sasl, kafka_user, kafka_password_file or os.environ.get(PASSWORD) or None)
    cluster = parse(url, sasl, TlsFiles(kafka_ca, kafka_certificate, kafka_key), insecure=insecure)
    return Settings(
        cluster,
        Events(journal, topic, max_bytes, from_oldest),
        None if metrics is None else metrics_address(metrics),
        log_format == "json",
    )


def _sasl(mechanism: str, user: str | None, password: str | None) -> Sasl | None:
    if user is None:
        if password is not None:
            raise ConfigError("there is a password of Kafka, and no --kafka-user")
        return None
    if password is None:
        raise ConfigError(f"--kafka-user needs a password: --kafka-password-file, or the variable {PASSWORD}")
    return Sasl(mechanism, user, password)
