"""``bussrv uplink``: join a server to a larger engine, such as Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from bussrv.cli.command import command
from bussrv.cli.connection import secret_in
from bussrv.cli.failure import Failure, explained
from bussrv.cli.parameters import whole

SECRETS = ("kafka_password_file", "bus_secret_file", "bus_token_file")
"""Options that name a file with a secret. The engine is given the secret."""


@dataclass(frozen=True)
class Engine:
    """An engine that a server can be joined to.

    :ivar module: has a function ``run``, which is given the URL and the options, and checks both.
    :ivar needs: a module that is there only with the extra of the engine's name.
    """

    name: str
    module: str
    needs: str


KAFKA = Engine("kafka", "bussrv.uplink.kafka.running", "aiokafka")
ENGINES = {"kafka": KAFKA, "kafkas": KAFKA}
"""The engines by the schemes of their URLs."""


class EngineOption(click.Option):
    """An option that only some engines have.

    :ivar engines: their names.
    """

    def __init__(self, *arguments: Any, engines: Sequence[str], **named: Any) -> None:
        self.engines = tuple(engines)
        super().__init__(*arguments, **named)


_kafka = partial(click.option, cls=EngineOption, engines=("kafka",))
_kafka_file = partial(_kafka, metavar="FILE", type=click.Path(path_type=Path))


@command(
    examples=(
        "bussrv uplink kafka://127.0.0.1:9092 --events --journal bussrv-journal",
        "bussrv uplink kafka://127.0.0.1:9092 --service tv --out --in --id hall --bus bus://127.0.0.1",
    ),
    statuses={0: "SIGTERM or Ctrl-C ended it", 2: "it cannot go on"},
)
@click.argument("url", metavar="URL")
@_kafka("--events", is_flag=True, help="Send each sealed record of the journal to a topic, exactly once.")
@_kafka("--journal", metavar="DIR", type=click.Path(path_type=Path), help="The journal directory; with --events.")
@_kafka("--topic", metavar="NAME", default="bussrv.events", show_default=True, help="The topic for --events.")
@_kafka("--from-oldest", is_flag=True, help="Go on although records are gone: with the oldest one that is left.")
@_kafka(
    "--service", "services", metavar="NAME", multiple=True, help="Forward this service, or pattern; may be repeated."
)
@_kafka("--out", is_flag=True, help="Send publications on the services to Kafka.")
@_kafka("--in", "inward", is_flag=True, help="Publish records of the services' topics on the bus.")
@_kafka("--id", "uplink_id", metavar="NAME", help="The name of this uplink; with --service.")
@_kafka("--prefix", metavar="TEXT", default="bus.", show_default=True, help="The beginning of the topics of services.")
@_kafka("--bus", metavar="URL", help="The server: bus://HOST, buss:// over TLS, or profile:NAME; with --service.")
@_kafka("--bus-user", metavar="NAME", help="The user to log in to the server as.")
@_kafka_file("--bus-secret-file", help="The file with the secret of the user.")
@_kafka_file("--bus-token-file", help="The file with a token, in place of a user.")
@_kafka_file("--bus-ca", help="The authorities that may sign the server's certificate.")
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
@click.option("--insecure", is_flag=True, help="Let a password cross the network as it is.")
@click.option("--metrics", metavar="[HOST:]PORT", help="Serve figures to Prometheus, by default to this machine only.")
@click.option("--log-format", type=click.Choice(("text", "json")), default="text", help="The form of the log.")
def uplink(url: str, **given: Any) -> int:
    """Join a server to Kafka until SIGTERM or Ctrl-C: kafka://HOST:PORT,HOST:PORT, or kafkas:// over TLS. With
    --events, the sealed records of the server's journal go to a topic. With --service, publications on some services go
    to topics (--out), or come from there (--in). If Kafka or the server is away, it tries again; the log says so on
    standard error.
    """
    scheme, separator, _ = url.partition("://")
    engine = ENGINES.get(scheme) if separator else None
    if engine is None:
        known = ", ".join(f"{each}://" for each in ENGINES)
        raise click.UsageError(f"{url} is no URL of an engine: it begins with one of {known}")
    _check_options(url, engine)
    with explained():
        for name in SECRETS:
            if given[name] is not None:
                given[name] = secret_in(given[name])
        _run_of(engine)(url, **given)
    return 0


def _check_options(url: str, engine: Engine) -> None:
    """:raises click.UsageError: an option is one of another engine."""
    context = click.get_current_context()
    for each in context.command.params:
        is_given = context.get_parameter_source(each.name or "") is click.core.ParameterSource.COMMANDLINE
        if is_given and isinstance(each, EngineOption) and engine.name not in each.engines:
            theirs = ", ".join(each.engines)
            raise click.UsageError(f"{each.opts[0]} does not go with {url}: it is an option of {theirs}")


def _run_of(engine: Engine) -> Any:
    try:
        return import_module(engine.module).run
    except ModuleNotFoundError as error:
        if error.name != engine.needs:
            raise
        raise Failure(f'{engine.needs} is not installed: pip install "bussrv[{engine.name}]"') from error
