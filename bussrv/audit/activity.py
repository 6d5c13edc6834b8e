"""Who was there, and what they provided: tables of sessions, services and events, as the journal tells it.

Each function takes the records of :func:`bussrv.audit.load.records_of` and returns a table, or what one is made from.
Times are timestamps. The order of records is that of their numbers.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by


def _order() -> Column:
    """Sorts the records of one server, also those that have the same number."""
    return F.struct("seq", "moment", "mono")


def _is(event: str) -> Column:
    return F.col("event") == event


def _first(column: str, among: Column) -> Column:
    return F.min_by(column, F.when(among & F.col(column).isNotNull(), _order()))


def _last(column: str) -> Column:
    return F.max_by(column, F.when(F.col(column).isNotNull(), _order()))


def boots(records: DataFrame) -> DataFrame:
    """Each boot of each server: ``server``, ``boot``, how many ``records``, the first and last number and time of them,
    whether its beginning is in the journal (``started``), whether it ended in an orderly way (``stopped``) and whether
    it ended at all (``ended``).
    """
    each = records.groupBy("server", "boot").agg(
        F.count("*").alias("records"),
        F.min("seq").alias("first_seq"),
        F.max("seq").alias("last_seq"),
        F.min("time").alias("first_time"),
        F.max("time").alias("last_time"),
        F.bool_or(_is("server.started")).alias("started"),
        F.bool_or(_is("server.stopped")).alias("stopped"),
    )
    newest = F.row_number().over(Window.partitionBy("server").orderBy(F.col("first_seq").desc(), "boot")) == 1
    return each.withColumn("ended", F.col("stopped") | ~newest)


def servers(boots: DataFrame) -> DataFrame:
    """Each server: its records, their first and last number and time, its boots, and how many of them crashed.

    :param boots: what :func:`boots` returns.
    """
    return boots.groupBy("server").agg(
        F.sum("records").alias("records"),
        F.min("first_seq").alias("first_seq"),
        F.max("last_seq").alias("last_seq"),
        F.min("first_time").alias("first_time"),
        F.max("last_time").alias("last_time"),
        F.count("*").alias("boots"),
        F.count_if(F.col("ended") & ~F.col("stopped")).alias("crashes"),
    )


def session_histories(records: DataFrame) -> DataFrame:
    """Each session that a record names: what :func:`sessions` shows, how often it was opened (``openings``) and closed
    (``closings``), in which boot it was opened (``boot``), and the numbers of the records in question.
    """
    opened, closed = _is("session.opened"), _is("session.closed")
    end = F.struct("moment", "duration", "reason", "objects_in", "objects_out", "bytes_in", "bytes_out")
    return (
        records.where(F.col("session").isNotNull())
        .groupBy("session")
        .agg(
            _first("server", F.lit(True)).alias("server"),
            _first("protocol", F.lit(True)).alias("protocol"),
            _last("routing_id").alias("routing_id"),
            _last("actor").alias("actor"),
            _first("peer", F.lit(True)).alias("peer"),
            _first("moment", opened).alias("opened"),
            _first("boot", opened).alias("boot"),
            F.bool_or(F.when(opened, F.coalesce("persistent", F.lit(False)))).alias("persistent"),
            _first("home", opened).alias("home"),
            F.min_by(end, F.when(closed, _order())).alias("end"),
            F.count_if(opened).alias("openings"),
            F.count_if(closed).alias("closings"),
            F.min(F.when(opened, F.col("seq"))).alias("first_opening"),
            F.max(F.when(opened, F.col("seq"))).alias("last_opening"),
            F.min(F.when(closed, F.col("seq"))).alias("first_closing"),
            F.max(F.when(closed, F.col("seq"))).alias("last_closing"),
        )
    )


def sessions(histories: DataFrame) -> DataFrame:
    """The table of sessions. ``duration`` is in seconds; it and the counters are what the first closing says.

    ``opened`` and ``persistent`` are NULL when the opening is not in the journal; what comes with the closing is NULL
    while the session is open.

    :param histories: what :func:`session_histories` returns.
    """
    is_closed = F.col("closings") > 0
    counters = [
        F.when(is_closed, F.coalesce(F.col("end")[name], F.lit(0))).alias(name)
        for name in ("objects_in", "objects_out", "bytes_in", "bytes_out")
    ]
    return histories.select(
        "session",
        "server",
        "protocol",
        "routing_id",
        "actor",
        "peer",
        F.when(is_closed, "closed").otherwise("open").alias("state"),
        "opened",
        F.col("end.moment").alias("closed"),
        (F.col("end.duration") / 1_000_000).alias("duration"),
        F.col("end.reason").alias("reason"),
        *counters,
        "persistent",
        "home",
    )


def provisions(records: DataFrame) -> DataFrame:
    """Each record that begins or ends that a session provides a service: ``is_provided`` after it, ``was_provided``
    before it, and ``is_kept``: whether the server kept it back because its disk failed.

    The closing of a session is such a record for each service that the session is known to have provided.
    """
    named = _with_is_kept(records).where(_is("service.registered") | _is("service.unregistered"))
    known = named.select("session", "service").distinct()
    closings = records.where(_is("session.closed")).drop("service").join(known, on="session", how="inner")
    in_order = Window.partitionBy("session", "service").orderBy("seq", "moment", "mono")
    columns = ("server", "boot", "session", "service", "event", "seq", "moment", "mono")
    return (
        named.select(*columns, "is_kept")
        .unionByName(closings.select(*columns, F.lit(False).alias("is_kept")))
        .withColumn("is_provided", _is("service.registered"))
        .withColumn("was_provided", F.coalesce(F.lag("is_provided").over(in_order), F.lit(False)))
    )


def _with_is_kept(records: DataFrame) -> DataFrame:
    """What a server keeps stands between ``journal.degraded`` and ``journal.restored``."""
    begins, ends = _is("journal.degraded"), _is("journal.restored") | _is("server.started")
    in_order = Window.partitionBy("server").orderBy("seq", "moment", "mono")
    latest = F.last(F.when(begins, True).when(ends, False), ignorenulls=True).over(in_order)
    events = ("journal.degraded", "journal.restored", "server.started", "service.registered", "service.unregistered")
    return records.where(F.col("event").isin(*events)).withColumn("is_kept", F.coalesce(latest, F.lit(False)))


def services(provisions: DataFrame, servers: DataFrame) -> DataFrame:
    """The table of services. ``provided_seconds`` is how long at least one session provided the service, up to the last
    record of the server if one still does; after a crash this lasts until the server is back and finds the session
    gone.

    :param provisions: what :func:`provisions` returns.
    :param servers: what :func:`servers` returns.
    """
    registered = _is("service.registered")
    in_order = Window.partitionBy("server", "service").orderBy("seq", "moment", "mono")
    step = F.col("is_provided").cast("int") - F.col("was_provided").cast("int")
    end = F.coalesce(F.lead("moment").over(in_order), F.col("last_time").cast("timestamp"))
    micros = F.greatest(F.lit(0), F.unix_micros(end) - F.unix_micros("moment"))
    return (
        provisions.join(servers.select("server", "last_time"), on="server", how="inner")
        .withColumn("providers_now", F.sum(step).over(in_order.rowsBetween(Window.unboundedPreceding, 0)))
        .withColumn("micros", F.when(F.col("providers_now") > 0, micros).otherwise(0))
        .groupBy("service", "server")
        .agg(
            F.count_distinct(F.when(registered, F.col("session"))).alias("providers"),
            F.count_if(registered).alias("registrations"),
            F.min(F.when(registered, F.col("moment"))).alias("first_registered"),
            F.max(F.when(registered, F.col("moment"))).alias("last_registered"),
            (F.sum("micros") / 1_000_000).alias("provided_seconds"),
            (F.max_by("providers_now", _order()) > 0).alias("provided"),
        )
        .select(
            "service",
            "server",
            "providers",
            "registrations",
            "first_registered",
            "last_registered",
            "provided_seconds",
            "provided",
        )
    )


def events(records: DataFrame) -> DataFrame:
    """The table of events: how many records there are of each kind, and how many more were left out of the journal
    because one address caused too many of them (``suppressed``).
    """
    return (
        records.groupBy("server", "event", "protocol", "outcome")
        .agg(F.count("*").alias("records"), F.coalesce(F.sum("suppressed"), F.lit(0)).alias("suppressed"))
        .select("server", "event", "protocol", "outcome", "records", "suppressed")
    )
