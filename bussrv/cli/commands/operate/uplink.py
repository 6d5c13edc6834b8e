"""``bussrv uplink``: join a server to a larger engine: NATS or Kafka."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from bussrv.cli.command import HeadedOption, command
from bussrv.cli.connection import secret_in
from bussrv.cli.failure import TAKEN_OVER, Failure, explained
from bussrv.cli.parameters import seconds, whole

SECRETS = ("kafka_password_file", "nats_password_file", "bus_secret_file", "bus_token_file")
"""Options that name a file with a secret. The engine is given the secret."""


@dataclass(frozen=True)
class Engine:
    """An engine that a server can be joined to.

    :ivar name: its name, also of the extra that it needs.
    :ivar title: its name for people.
    :ivar module: has a function ``run``, which is given the URL and the options, and checks both.
    :ivar needs: a module that is there only with the extra of the engine's name.
    """

    name: str
    title: str
    module: str
    needs: str


KAFKA = Engine("kafka", "Kafka", "bussrv.uplink.kafka.running", "aiokafka")
NATS = Engine("nats", "NATS", "bussrv.uplink.nats.program", "nats")
ENGINES = {"kafka": KAFKA, "kafkas": KAFKA, "nats": NATS, "tls": NATS}
"""The engines by the schemes of their URLs."""


class EngineOption(HeadedOption):
    """An option that only one engine has.

    :ivar engine: the engine.
    """

    def __init__(self, *arguments: Any, engine: Engine, **named: Any) -> None:
        self.engine = engine
        self.heading = f"Only for {engine.title}"
        super().__init__(*arguments, **named)


_kafka = partial(click.option, cls=EngineOption, engine=KAFKA)
_file = partial(click.option, metavar="FILE", type=click.Path(path_type=Path))
_nats = partial(click.option, cls=EngineOption, engine=NATS)
_nats_file = partial(_nats, metavar="FILE", type=click.Path(path_type=Path))
_kafka_file = partial(_kafka, metavar="FILE", type=click.Path(path_type=Path))


@command(
    examples=(
        "bussrv uplink nats://127.0.0.1:4222",
        "bussrv uplink nats://hall.example,attic.example --bus unix:/run/bussrv/servers --keep tv",
        "bussrv uplink kafka://127.0.0.1:9092 --events --journal bussrv-journal",
        "bussrv uplink kafka://127.0.0.1:9092 --service tv --out --in --id hall --bus bus://127.0.0.1",
    ),
    statuses={
        0: "SIGTERM or Ctrl-C ended it",
        2: "it cannot go on",
        6: "another uplink has taken its place",
    },
)
@click.argument("url", metavar="URL")
@click.option(
    "--bus",
    metavar="URL",
    help="The server: bus://HOST, or buss:// over TLS; for NATS also unix:PATH, by default bus://127.0.0.1; for Kafka "
    "also profile:NAME.",
)
@_file("--bus-token-file", help="The file with the token to show to the server.")
@_file("--bus-ca", help="The authorities that may sign the certificate of the server.")
@_nats_file("--bus-certificate", help="The certificate to show to the server.")
@_nats_file("--bus-key", help="Its private key.")
@_nats(
    "--net",
    metavar="NAME",
    default="bussrv",
    show_default=True,
    help="The net. Servers of one net see each other; to each, the net is the linked server uplink/NAME.",
)
@_nats("--keep", metavar="SERVICE", multiple=True, help="Keep publications on this service for servers that are away.")
@_nats("--keep-age", metavar="SECONDS", type=seconds(1), default=3600.0, show_default=True, help="For how long.")
@_nats(
    "--keep-size",
    metavar="BYTES",
    type=whole(1 << 16, 1 << 40),
    default=64 << 20,
    show_default=True,
    help="The most bytes of each service.",
)
@_nats(
    "--state",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("bussrv-uplink"),
    show_default=True,
    help="The directory that says how far the server is in what is kept.",
)
@_nats(
    "--lapse",
    metavar="SECONDS",
    type=seconds(2),
    default=5.0,
    show_default=True,
    help="Without a heartbeat for so long, a server counts as gone.",
)
@_nats(
    "--max-payload",
    metavar="BYTES",
    type=whole(1, 1 << 30),
    default=16 << 20,
    show_default=True,
    help="The most bytes of the payload of an object.",
)
@_nats("--nats-user", metavar="NAME", help="The user to log in as.")
@_nats_file("--nats-password-file", help="The file with the password of the user.")
@_nats_file("--nats-credentials", help="A file of credentials: a JWT and a seed, as nsc makes it.")
@_nats_file("--nats-ca", help="The authorities that may sign the certificates of NATS.")
@_nats_file("--nats-certificate", help="The certificate to show to NATS.")
@_nats_file("--nats-key", help="Its private key.")
@_kafka("--events", is_flag=True, help="Send each sealed record of the journal to a topic, exactly once.")
@click.option(
    "--journal",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The journal directory: for Kafka with --events; for NATS its newest seals are published.",
)
@_kafka("--topic", metavar="NAME", default="bussrv.events", show_default=True, help="The topic for --events.")
@_kafka("--from-oldest", is_flag=True, help="Go on although records are gone: with the oldest one that is left.")
@_kafka(
    "--service", "services", metavar="NAME", multiple=True, help="Forward this service, or pattern; may be repeated."
)
@_kafka("--out", is_flag=True, help="Send publications on the services to Kafka.")
@_kafka("--in", "inward", is_flag=True, help="Publish records of the services' topics on the bus.")
@_kafka("--id", "uplink_id", metavar="NAME", help="The name of this uplink; with --service.")
@_kafka("--prefix", metavar="TEXT", default="bus.", show_default=True, help="The beginning of the topics of services.")
@_kafka("--bus-user", metavar="NAME", help="The user to log in to the server as.")
@_kafka_file("--bus-secret-file", help="The file with the secret of the user.")
@_kafka(
    "--max-bytes",
    metavar="BYTES",
    type=whole(1024, 1 << 30),
    default=1 << 20,
    show_default=True,
    help="The most bytes of one record of Kafka. The topic has to take as many.",
)
@_kafka(
    "--kafka-sasl",
    type=click.Choice(("plain", "scram-sha-256", "scram-sha-512")),
    default="scram-sha-512",
    show_default=True,
    help="The way to log in.",
)
@_kafka("--kafka-user", metavar="NAME", help="The user to log in as.")
@_kafka_file("--kafka-password-file", help="The file with the password of the user.")
@_kafka_file("--kafka-ca", help="The authorities that may sign the certificates of brokers.")
@_kafka_file("--kafka-certificate", help="The certificate to show to brokers.")
@_kafka_file("--kafka-key", help="Its private key.")
@_kafka("--insecure", is_flag=True, help="Let a password cross the network as it is.")
@click.option("--metrics", metavar="[HOST:]PORT", help="Serve figures to Prometheus, by default to this machine only.")
@click.option("--log-format", type=click.Choice(("text", "json")), default="text", help="The form of the log.")
def uplink(url: str, **given: Any) -> int:
    """Join a server to NATS or to Kafka, until SIGTERM or Ctrl-C. The command runs beside the server. If the engine or
    the server is away, it tries again; the log says so on standard error. With nats://HOST:PORT,HOST:PORT, or with
    tls://, all servers whose uplinks have one --net are one network, as if they were linked. With
    kafka://HOST:PORT,HOST:PORT, or with kafkas://, and --events, the sealed records of the server's journal go to a
    topic. With --service, publications on some services go to topics of Kafka (--out), or come from there (--in).
    """
    scheme, separator, _ = url.partition("://")
    engine = ENGINES.get(scheme) if separator else None
    if engine is None:
        known = ", ".join(f"{each}://" for each in ENGINES)
        raise click.UsageError(f"{url} is no URL of an engine: it begins with one of {known}")
    _check_options(url, engine)
    options = {each.name or "": given[each.name or ""] for each in _options() if _is_of(each, engine)}
    from bussrv.uplink.stopping import TakenOver

    with explained():
        for name in SECRETS:
            if options.get(name) is not None:
                options[name] = secret_in(options[name])
        try:
            _run_of(engine)(url, **options)
        except TakenOver as error:
            raise Failure(str(error), TAKEN_OVER) from error
    return 0


def _options() -> list[click.Parameter]:
    return [each for each in click.get_current_context().command.params if isinstance(each, click.Option)]


def _is_of(option: click.Parameter, engine: Engine) -> bool:
    return not isinstance(option, EngineOption) or option.engine == engine


def _check_options(url: str, engine: Engine) -> None:
    """:raises click.UsageError: an option is one of another engine."""
    context = click.get_current_context()
    for each in _options():
        is_given = context.get_parameter_source(each.name or "") is click.core.ParameterSource.COMMANDLINE
        if is_given and isinstance(each, EngineOption) and not _is_of(each, engine):
            raise click.UsageError(f"{each.opts[0]} does not go with {url}: it is an option of {each.engine.title}")


def _run_of(engine: Engine) -> Any:
    try:
        return import_module(engine.module).run
    except ModuleNotFoundError as error:
        if error.name != engine.needs:
            raise
        raise Failure(f'{engine.needs} is not installed: pip install "bussrv[{engine.name}]"') from error
