"""The settings of an uplink to Kafka, and their checks."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bussrv.client.aio import Bus, connect
from bussrv.client.core.names import is_wide
from bussrv.client.events import State
from bussrv.client.tls import Tls
from bussrv.errors import ConfigError, Refused
from bussrv.uplink.figures import metrics_address
from bussrv.uplink.kafka.cluster import Cluster, Sasl, parse
from bussrv.uplink.kafka.publications import Wanted
from bussrv.uplink.kafka.topics import LONGEST, NoTopic, is_topic, topic_of
from bussrv.values import check_wanted_name, is_reserved

PASSWORD = "BUSSRV_KAFKA_PASSWORD"
"""The variable of the environment that may have the password, in place of a file."""

SCHEMES_OF_BUS = ("bus", "buss", "ws", "wss", "profile")
"""Schemes of wire formats whose publications have attributes."""


@dataclass(frozen=True)
class Events:
    """What ``--events`` asks for.

    :ivar journal: the directory of the journal.
    :ivar from_oldest: whether records may be left out that are gone.
    """

    journal: Path
    topic: str
    from_oldest: bool


@dataclass(frozen=True)
class Publications:
    """What ``--service`` asks for.

    :ivar bus: makes the client of the server; its argument is told the states of the connection.
    :ivar out: whether publications go to Kafka, and ``inward`` whether records come from there.
    """

    bus: Callable[[Callable[[State], None]], Bus]
    wanted: Wanted
    out: bool
    inward: bool


@dataclass(frozen=True)
class Settings:
    """The settings of an uplink.

    :ivar max_bytes: the most bytes of a record of Kafka.
    :ivar metrics: host and port for Prometheus.
    """

    cluster: Cluster
    max_bytes: int
    events: Events | None
    publications: Publications | None
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
    **of_publications: Any,
) -> Settings:
    """The settings that options of ``bussrv uplink`` say.

    :param kafka_password_file: the password in the file.
    :raises ConfigError: an option cannot be used, or is missing.
    """
    if not (events or of_publications["services"]):
        raise ConfigError("there is nothing to do: say --events, or --service NAME with --out or --in")
    sasl = _sasl(kafka_sasl, kafka_user, kafka_password_file or os.environ.get(PASSWORD) or None)
    return Settings(
        parse(url, sasl, Tls(kafka_ca, kafka_certificate, kafka_key), insecure=insecure),
        max_bytes,
        _events(journal, topic, from_oldest) if events else None,
        _publications(insecure=insecure, **of_publications) if of_publications["services"] else None,
        None if metrics is None else metrics_address(metrics),
        log_format == "json",
    )


def _events(journal: Path | None, topic: str, from_oldest: bool) -> Events:
    if journal is None:
        raise ConfigError("--events needs --journal: the directory of the journal")
    if not is_topic(topic):
        raise ConfigError(f"--topic {topic}: a name of a topic has letters, digits, and . _ - only, at most {LONGEST}")
    return Events(journal, topic, from_oldest)


def _publications(
    *,
    services: tuple[str, ...],
    out: bool,
    inward: bool,
    uplink_id: str | None,
    prefix: str,
    bus: str | None,
    bus_user: str | None,
    bus_secret_file: str | None,
    bus_token_file: str | None,
    bus_ca: Path | None,
    insecure: bool,
) -> Publications:
    """:param bus_secret_file, bus_token_file: the secrets in these files."""
    if not (out or inward):
        raise ConfigError("--service needs a direction: --out, --in or both")
    if bus is None or uplink_id is None:
        missing = "--bus: the address of the server" if bus is None else "--id: a name of this uplink, such as hall"
        raise ConfigError(f"--service needs {missing}")
    for name, text in (("--id", uplink_id), ("--prefix", prefix)):
        if not is_topic(text):
            raise ConfigError(f"{name} {text}: it has letters, digits, and . _ - only")
    for service in services:
        _check_service(service, prefix, inward=inward)
    if (scheme := bus.partition(":")[0]) not in SCHEMES_OF_BUS:
        raise ConfigError(f"--bus {bus}: {scheme} is none of {', '.join(SCHEMES_OF_BUS)}")
    make = partial(
        connect,
        bus,
        user=bus_user,
        secret=bus_secret_file,
        token=bus_token_file,
        name=f"bussrv uplink {uplink_id}",
        tls=None if bus_ca is None else Tls(bus_ca),
        offline="wait",
        insecure=insecure,
    )
    make()  # It checks the arguments, and does nothing yet.
    return Publications(
        lambda on_state: make(on_state=on_state), Wanted(uplink_id, tuple(dict.fromkeys(services)), prefix), out, inward
    )


def _check_service(service: str, prefix: str, *, inward: bool) -> None:
    try:
        check_wanted_name(service)
        if is_reserved(service):
            raise ConfigError(f"--service {service}: it is a service of the server itself")
        if inward and not is_wide(service):
            topic_of(prefix, service)
    except (Refused, NoTopic) as error:
        raise ConfigError(f"--service {service}: {error}") from error


def _sasl(mechanism: str, user: str | None, password: str | None) -> Sasl | None:
    if user is None:
        if password is not None:
            raise ConfigError("there is a password of Kafka, and no --kafka-user")
        return None
    if password is None:
        raise ConfigError(f"--kafka-user needs a password: --kafka-password-file, or the variable {PASSWORD}")
    return Sasl(mechanism, user, password)
