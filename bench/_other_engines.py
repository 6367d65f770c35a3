"""The questions of the pipeline to DuckDB and Polars, over the same files, in the form that is fastest for each.

Destinations of runs are independent. Each query is about one of them, as otherwise the engines would need more memory
than a machine has.
Both sweep over the edges of all ranges: counts are running sums, and the times of a piece are those of the last range
that began. So ranges of one side must be equal or disjoint, as those of `_synthetic_events` are; the pipeline takes any
ranges.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow.parquet as pq

from mqlab.events.folder import run_name
from mqlab.pipeline.kernels.histogram import GROWTH, LOG_GROWTH
from mqlab.pipeline.schema import DELIVERY_CLASSES
from mqlab.study.metric import PERCENTILES

if TYPE_CHECKING:
    import polars as pl

# Of each run: counts by name, the rate of arrivals, and durations in seconds.
Answers = dict[int, dict[str, float]]
Engine = Callable[[Path], Answers]
# Any: a row of a table.
Row = dict[str, Any]

_KEY = ("run", "destination", "producer", "subscription")
_COPIES = ("confirmed", "unknown", "fresh", "marked", "late")
_TIMES = ("t_planned", "t_sent", "t_received")
_TOTALS = ("missing", "sent", "measured sent", "damaged", "measured received")
# Event tables with a column `destination`.
_BY_DESTINATION = ("sends", "receipts", "roles")
# DuckDB writes to the disk what needs more than this share of the machine's memory.
_MEMORY_SHARE = 0.5

_DUCKDB = """
WITH clock AS (SELECT run, agent, "offset" FROM {clocks}),
windows AS (
    SELECT run, min(t_start) FILTER (phase = 'measure') AS measure_start,
        max(t_end) FILTER (phase = 'measure') AS measure_end, any_value(tolerance) AS tolerance
    FROM {phases} JOIN (SELECT run, 2 * max(error) AS tolerance FROM {clocks} GROUP BY run) USING (run) GROUP BY run
),
consumers AS (
    SELECT run, number AS consumer, destination, subscription FROM {roles} WHERE role = 'consumer'
),
sent AS (
    SELECT run, destination, producer, subscription, first_seq AS first, first_seq + count AS stop,
        (outcome = 'confirmed')::INT AS confirmed, (outcome = 'unknown')::INT AS unknown, 0 AS fresh, 0 AS marked,
        0 AS late, t_planned + "offset" AS t_planned, t_sent + "offset" AS t_sent, NULL::BIGINT AS t_received
    FROM {sends} JOIN clock USING (run, agent)
        JOIN (SELECT DISTINCT run, destination, subscription FROM consumers) USING (run, destination)
    WHERE outcome IN ('confirmed', 'unknown')
),
ordered AS (
    SELECT run, consumer, destination, producer, first_seq AS first, first_seq + count AS stop, redelivered,
        t_received + "offset" AS t_received, coalesce(max(first_seq + count) OVER (
            PARTITION BY run, consumer, destination, producer ORDER BY ordinal, first_seq
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) - 1, first_seq) AS latest
    FROM {receipts} JOIN clock USING (run, agent)
),
received AS MATERIALIZED (
    SELECT run, destination, producer, coalesce(subscription, -1) AS subscription, first, stop, 0 AS confirmed,
        0 AS unknown, (NOT redelivered)::INT AS fresh, redelivered::INT AS marked, 0 AS late,
        NULL::BIGINT AS t_planned, NULL::BIGINT AS t_sent, t_received,
        CASE WHEN redelivered THEN first ELSE greatest(first, least(stop, latest)) END AS late_until
    FROM ordered LEFT JOIN consumers USING (run, consumer, destination)
),
ranges AS MATERIALIZED (
    SELECT * FROM sent
    UNION ALL SELECT * EXCLUDE (late_until) FROM received
    UNION ALL SELECT * EXCLUDE (late_until)
        REPLACE (late_until AS stop, 0 AS fresh, 0 AS marked, 1 AS late, NULL::BIGINT AS t_received)
    FROM received WHERE first < late_until
),
edges AS (
    SELECT {key}, edge, {sums}, {firsts} FROM (
        SELECT {key}, first AS edge, {copies}, {times} FROM ranges
        UNION ALL SELECT {key}, stop, {ended}, NULL, NULL, NULL FROM ranges
    ) GROUP BY {key}, edge
),
pieces AS (
    SELECT run, lead(edge) OVER along - edge AS messages, {running}, {latest}
    FROM edges WINDOW along AS (PARTITION BY {key} ORDER BY edge)
),
classified AS (
    SELECT *, fresh + marked AS copies, confirmed + unknown > 0 AS was_sent, fresh + marked > 0 AS was_received,
        CASE WHEN confirmed + unknown > 0 AND fresh + marked > 0 AND t_planned >= measure_start
            AND t_planned < measure_end THEN greatest(t_received - t_planned, 0) END AS latency
    FROM pieces JOIN windows USING (run) WHERE confirmed + unknown + fresh + marked > 0
)
SELECT run, ceil(ln(greatest(CASE WHEN latency IS NOT NULL THEN latency END, 1)) / {growth})::INT AS bucket,
    latency IS NOT NULL AS timed, sum(messages)::BIGINT AS messages,
    sum(CASE WHEN confirmed > 0 AND was_received THEN messages ELSE 0 END)::BIGINT AS delivered,
    sum(CASE WHEN confirmed > 0 AND NOT was_received THEN messages ELSE 0 END)::BIGINT AS lost,
    sum(CASE WHEN confirmed + unknown > 1 THEN messages ELSE 0 END)::BIGINT AS resent,
    sum(CASE WHEN was_sent AND copies > 1 AND fresh > confirmed + unknown THEN messages ELSE 0 END)::BIGINT
        AS duplicated,
    sum(CASE WHEN was_sent AND copies > 1 AND fresh > 1 AND fresh <= confirmed + unknown THEN messages ELSE 0 END)
        ::BIGINT AS duplicated_resent,
    sum(CASE WHEN was_sent AND copies > 1 AND fresh <= 1 THEN messages ELSE 0 END)::BIGINT AS duplicated_marked,
    sum(CASE WHEN confirmed = 0 AND unknown > 0 AND was_received THEN messages ELSE 0 END)::BIGINT AS recovered,
    sum(CASE WHEN was_sent AND fresh > 0 AND late = fresh THEN messages ELSE 0 END)::BIGINT AS out_of_order,
    sum(CASE WHEN NOT was_sent THEN messages ELSE 0 END)::BIGINT AS unexpected,
    sum(CASE WHEN was_sent AND was_received AND t_received + tolerance < t_sent THEN messages ELSE 0 END)::BIGINT
        AS early,
    sum(latency::HUGEINT * messages)::DECIMAL(38, 0) AS nanoseconds, max(latency) AS longest
FROM classified GROUP BY ALL
"""
_DUCKDB_TOTALS = """
WITH clock AS (SELECT run, agent, "offset" FROM {clocks}),
windows AS (SELECT run, t_start, t_end FROM {phases} WHERE phase = 'measure'),
gaps AS (
    SELECT run, sum(missing)::BIGINT AS missing FROM (
        SELECT run, greatest(0, first_seq - coalesce(max(first_seq + count) OVER (
            PARTITION BY run, destination, producer ORDER BY first_seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0)) AS missing FROM {sends}
    ) GROUP BY run
),
sent AS (
    SELECT run, sum(count)::BIGINT AS sent,
        sum(CASE WHEN t_sent + "offset" >= t_start AND t_sent + "offset" < t_end THEN count ELSE 0 END)::BIGINT
            AS "measured sent"
    FROM {sends} JOIN clock USING (run, agent) JOIN windows USING (run) GROUP BY run
),
received AS (
    SELECT run, sum(damaged)::BIGINT AS damaged, any_value(t_end - t_start) AS measured,
        sum(CASE WHEN t_received + "offset" >= t_start AND t_received + "offset" < t_end THEN count ELSE 0 END)::BIGINT
            AS "measured received"
    FROM {receipts} JOIN clock USING (run, agent) JOIN windows USING (run) GROUP BY run
)
SELECT * FROM gaps JOIN sent USING (run) JOIN received USING (run)
"""


def duckdb_answers(events: Path) -> Answers:
    import duckdb

    texts = {
        "key": ", ".join(_KEY),
        "copies": ", ".join(_COPIES),
        "times": ", ".join(_TIMES),
        "ended": ", ".join(f"-{name}" for name in _COPIES),
        "sums": ", ".join(f"sum({name}) AS {name}" for name in _COPIES),
        "firsts": ", ".join(f"min({name}) AS {name}" for name in _TIMES),
        "running": ", ".join(f"sum({name}) OVER along AS {name}" for name in _COPIES),
        "latest": ", ".join(f"last_value({name} IGNORE NULLS) OVER along AS {name}" for name in _TIMES),
        "growth": repr(LOG_GROWTH),
    }
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{_MEMORY_SHARE * psutil.virtual_memory().total / 2**20:.0f}MiB",
        "temp_directory": str(events.parent / "duckdb"),
    }
    rows: dict[str, list[Row]] = {_DUCKDB: [], _DUCKDB_TOTALS: []}
    with duckdb.connect(config=settings) as connection:
        for files, destination in _parts(events):
            tables = {table.name: f"read_parquet('{table}/{files}')" for table in events.iterdir()}
            for name in _BY_DESTINATION:
                tables[name] = f"(SELECT * FROM {tables[name]} WHERE destination = {destination})"
            for query, of_query in rows.items():
                try:
                    of_query += connection.sql(query.format(**tables, **texts)).to_arrow_table().to_pylist()
                except duckdb.OutOfMemoryException as error:
                    raise MemoryError(str(error)) from error
    return _answers(*rows.values())


def polars_answers(events: Path) -> Answers:
    import polars as pl

    histogram: list[Row] = []
    totals: list[Row] = []
    for files, destination in _parts(events):
        tables = {table.name: pl.scan_parquet(table / files) for table in events.iterdir()}
        for name in _BY_DESTINATION:
            tables[name] = tables[name].filter(pl.col("destination") == destination)
        frames = pl.collect_all(_polars_queries(tables), engine="streaming")
        for rows, frame in zip((histogram, totals), frames, strict=True):
            rows += frame.to_dicts()
    return _answers(histogram, totals)


def _parts(events: Path) -> Iterator[tuple[str, int]]:
    """A pattern of the files of each run, and a number for each of its destinations."""
    roles = pq.read_table(events / "roles", columns=["run", "destination"])
    for row in roles.group_by(["run", "destination"]).aggregate([]).to_pylist():
        yield f"{run_name(row['run'])}*.parquet", row["destination"]


def _polars_queries(tables: dict[str, "pl.LazyFrame"]) -> list["pl.LazyFrame"]:
    """The histogram of latencies with the delivery classes, and the totals."""
    import polars as pl

    clock = tables["clocks"].select("run", "agent", "offset")
    measured = tables["phases"].filter(pl.col("phase") == "measure")
    windows = measured.group_by("run").agg(pl.min("t_start"), pl.max("t_end"))
    sends, receipts = (
        tables[name].with_columns(stop=pl.col("first_seq") + pl.col("count")).join(clock, ["run", "agent"])
        for name in ("sends", "receipts")
    )
    # Each key and its edges in order. A running sum over all of them is one over each: at the last edge it is 0.
    edges = _polars_edges(sends, receipts, tables["roles"])
    pieces = (
        edges.sort(*_KEY, "edge")
        .with_columns(
            *(pl.col(name).cum_sum() for name in _COPIES),
            *(pl.col(name).forward_fill() for name in _TIMES),
            messages=pl.col("edge").shift(-1) - pl.col("edge"),
        )
        .filter(pl.sum_horizontal("confirmed", "unknown", "fresh", "marked") > 0)
    )
    tolerance = tables["clocks"].group_by("run").agg(tolerance=2 * pl.max("error"))
    histogram = _polars_histogram(pieces.join(windows, "run").join(tolerance, "run"))
    earlier = pl.col("stop").cum_max().shift(1, fill_value=0).over("run", "destination", "producer")
    gaps = (
        sends.sort("run", "destination", "producer", "first_seq")
        .with_columns(missing=(pl.col("first_seq") - earlier).clip(0))
        .group_by("run")
        .agg(pl.sum("missing"))
    )

    def in_measure(time: str) -> "pl.Expr":
        at = pl.col(time) + pl.col("offset")
        return pl.col("count").filter((at >= pl.col("t_start")) & (at < pl.col("t_end"))).sum()

    sent = sends.join(windows, "run").group_by("run").agg(
        sent=pl.sum("count"), **{"measured sent": in_measure("t_sent")}
    )  # fmt: skip
    received = receipts.join(windows, "run").group_by("run").agg(
        pl.sum("damaged"), measured=(pl.col("t_end") - pl.col("t_start")).first(),
        **{"measured received": in_measure("t_received")},
    )  # fmt: skip
    return [histogram, gaps.join(sent, "run").join(received, "run")]


def _polars_edges(sends: "pl.LazyFrame", receipts: "pl.LazyFrame", roles: "pl.LazyFrame") -> "pl.LazyFrame":
    """At each edge, how many ranges of each kind begin, less those that end, and the first times of the former."""
    import polars as pl

    consumers = roles.filter(pl.col("role") == "consumer").select(
        "run", "destination", "subscription", consumer="number"
    )
    offset, outcome = pl.col("offset"), pl.col("outcome").cast(pl.String)
    sent = (
        sends.filter(outcome.is_in(["confirmed", "unknown"]))
        .join(consumers.select("run", "destination", "subscription").unique(), ["run", "destination"])
        .select(
            *_KEY, "stop", first="first_seq", confirmed=(outcome == "confirmed").cast(pl.Int32),
            unknown=(outcome == "unknown").cast(pl.Int32), t_planned=pl.col("t_planned") + offset,
            t_sent=pl.col("t_sent") + offset,
        )
    )  # fmt: skip
    before = pl.col("stop").cum_max().shift(1).over("run", "consumer", "destination", "producer") - 1
    late_until = pl.max_horizontal("first_seq", pl.min_horizontal("stop", before.fill_null(pl.col("first_seq"))))
    received = (
        receipts.sort("run", "consumer", "destination", "producer", "ordinal", "first_seq")
        .with_columns(late_until=pl.when("redelivered").then("first_seq").otherwise(late_until))
        .join(consumers, ["run", "consumer", "destination"], "left")
        .select(
            *_KEY[:3], "stop", "late_until", subscription=pl.col("subscription").fill_null(-1), first="first_seq",
            fresh=(~pl.col("redelivered")).cast(pl.Int32), marked=pl.col("redelivered").cast(pl.Int32),
            t_received=pl.col("t_received") + offset,
        )
    )  # fmt: skip
    late = received.filter(pl.col("first") < pl.col("late_until")).select(
        *_KEY, first="first", stop="late_until", late=pl.lit(1, pl.Int32)
    )
    ranges = pl.concat([sent, received.drop("late_until"), late], how="diagonal")
    begun = ranges.select(*_KEY, *_COPIES, *_TIMES, edge="first")
    ended = ranges.select(*_KEY, *(-pl.col(name) for name in _COPIES), edge="stop")
    return (
        pl.concat([begun, ended], how="diagonal")
        .group_by(*_KEY, "edge")
        .agg(*(pl.sum(name) for name in _COPIES), *(pl.min(name) for name in _TIMES))
    )


def _polars_histogram(pieces: "pl.LazyFrame") -> "pl.LazyFrame":
    import polars as pl

    confirmed, fresh, messages = pl.col("confirmed") > 0, pl.col("fresh"), pl.col("messages")
    copies, times_sent = fresh + pl.col("marked"), pl.col("confirmed") + pl.col("unknown")
    was_sent, was_received, several = confirmed | (pl.col("unknown") > 0), copies > 0, copies > 1
    planned = pl.col("t_planned")
    is_timed = was_sent & was_received & (planned >= pl.col("t_start")) & (planned < pl.col("t_end"))
    latency = pl.when(is_timed).then((pl.col("t_received") - planned).clip(0))
    classes = {
        "delivered": confirmed & was_received,
        "lost": confirmed & ~was_received,
        "resent": times_sent > 1,
        "duplicated": was_sent & several & (fresh > times_sent),
        "duplicated_resent": was_sent & several & (fresh > 1) & (fresh <= times_sent),
        "duplicated_marked": was_sent & several & (fresh <= 1),
        "recovered": was_sent & ~confirmed & was_received,
        "out_of_order": was_sent & (fresh > 0) & (pl.col("late") == fresh),
        "unexpected": ~was_sent,
        "early": was_sent & was_received & (pl.col("t_received") + pl.col("tolerance") < pl.col("t_sent")),
    }
    return (
        pieces.with_columns(latency=latency)
        .with_columns(
            bucket=(pl.col("latency").clip(1).log() / LOG_GROWTH).ceil().cast(pl.Int32),
            timed=pl.col("latency").is_not_null(),
            **{name: pl.when(flags).then(messages).otherwise(0) for name, flags in classes.items()},
        )
        .group_by("run", "bucket", "timed")
        .agg(
            pl.sum("messages", *classes),
            nanoseconds=(pl.col("latency") * messages).sum(),
            longest=pl.max("latency"),
        )
    )


def _answers(histogram: list[Row], totals: list[Row]) -> Answers:
    """Add up what the queries said of each run."""
    answers: Answers = {}
    for number, nanoseconds in {row["run"]: row["measured"] for row in totals}.items():
        of_run = [row for row in totals if row["run"] == number]
        run = answers[number] = {name: sum(row[name] for row in of_run) for name in _TOTALS}
        run["rate.received"] = run["measured received"] / (nanoseconds / 1e9)
        in_buckets = [row for row in histogram if row["run"] == number]
        run |= {name: sum(row[name] for row in in_buckets) for name in (*DELIVERY_CLASSES, "early")}
        run |= _durations(sorted((row for row in in_buckets if row["timed"]), key=lambda row: row["bucket"]))
    return answers


def _durations(rows: list[Row]) -> dict[str, float]:
    """The latencies in seconds, as the pipeline defines them: of buckets by their upper edges."""
    total = sum(row["messages"] for row in rows)
    if not total:
        return {}
    longest = max(row["longest"] for row in rows)
    durations = {
        "latency.max": longest / 1e9,
        "latency.mean": float(sum(row["nanoseconds"] for row in rows)) / total / 1e9,
    }
    for name, share in PERCENTILES.items():
        cumulated = 0
        for row in rows:
            cumulated += row["messages"]
            if cumulated * 1000 >= total * share:
                durations[f"latency.{name}"] = min(GROWTH ** row["bucket"], longest) / 1e9
                break
    return durations
