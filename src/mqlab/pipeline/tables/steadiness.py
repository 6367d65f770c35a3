"""Steadiness: why the rate of a run is not that of a steady state.

A run is steady if in its measure phase
- arrivals are copies x sends, within 5 % or what the senders send at once;
- the backlog does not grow;
- the warm-up was longer than the 99th percentile of latency (response time);
- the rate of arrivals has no trend. A run that shares its events with others may have one: all their settings have it.

Growth and trend are those of the parts of the measure phase, 20 at most. A part has whole slots of a fifth of a second:
long beside the time between two messages, so that the values of the parts hardly depend on each other. A trend is one
by the test of Mann and Kendall that is also worth a word: it changes the rate by more than 5 %, or adds more than 1 %
of the arrivals to the backlog. A measure phase of fewer than 10 slots (2 s) has no trend: nothing is known of it.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from mqlab.pipeline.kernels.count_keys import NANOSECONDS
from mqlab.pipeline.kernels.trend import CRITICAL, TRENDS, find_trends
from mqlab.pipeline.tables.audit import COPIES
from mqlab.study.steadiness import MAX_GAP

_MAX_CHANGE: Final = 0.05
_MAX_GROWTH: Final = 0.01


def unsteady(facts: DataFrame, durations: DataFrame, activity: DataFrame) -> DataFrame:
    """(run, unsteady): the reason of each run that is not steady. `study.steadiness` says which runs are judged."""
    is_judged = "load = 'both' AND messages IS NULL AND consume_rate IS NULL AND faults = '' AND profile = ''"
    judged = facts.where(f"{is_judged} AND measured_sent IS NOT NULL AND sent > 0").selectExpr(
        "*", f"{COPIES} AS copies"
    )
    p99 = durations.where("metric IN ('latency.p99', 'response.p99')").groupBy("run").agg(fn.max("value").alias("p99"))
    phases = judged.select("run", "load_start", "measure_start", "measure_end", "copies").groupBy("run")
    by_slot = activity.select("run", "slot", "sent", "received").groupBy("run")
    found = phases.cogroup(by_slot).applyInArrow(find_trends, from_arrow_schema(TRENDS))
    return (
        judged.join(fn.broadcast(p99), "run", "left")
        .join(fn.broadcast(found), "run", "left")
        .selectExpr("run", f"concat_ws('; ', {_gap()}, {_growth()}, {_short_warmup()}, {_trend()}) AS unsteady")
        .where("unsteady != ''")
    )


def _gap() -> str:
    due = "copies * measured_sent"
    # Messages that a sender sends at once may be counted before the edge of the phase, and arrive behind it.
    most = f"greatest({MAX_GAP}D * ({due}), copies * at_once * (producers + requesters))"
    gap = f"(measured_received - {due})"
    more = f"CASE WHEN {gap} > 0 THEN 'more' ELSE 'less' END"
    text = f"concat({_percent(f'try_divide(abs({gap}), {due})')}, ' ', {more}, ' arrived than was sent')"
    none = "'nothing was sent while messages came'"
    return f"CASE WHEN abs({gap}) > {most} THEN CASE WHEN {due} = 0 THEN {none} ELSE {text} END END"


def _growth() -> str:
    grows = f"backlog_score > {CRITICAL}D AND backlog_change > {_MAX_GROWTH}D"
    return (
        f"CASE WHEN {grows} THEN concat('the backlog grew by ', {_percent('backlog_change')}, ' of the arrivals') END"
    )


def _short_warmup() -> str:
    warmup = f"((measure_start - load_start) / {NANOSECONDS})"
    text = f"format_string('a hundredth took %.3g s or longer, the warm-up %.3g s', p99, {warmup})"
    return f"CASE WHEN p99 > {warmup} THEN {text} END"


def _trend() -> str:
    changes = f"edges IS NULL AND rate_score > {CRITICAL}D AND abs(rate_change) > {_MAX_CHANGE}D"
    direction = "CASE WHEN rate_change > 0 THEN 'rose' ELSE 'fell' END"
    return f"CASE WHEN {changes} THEN concat('the rate ', {direction}, ' by ', {_percent('abs(rate_change)')}) END"


def _percent(share: str) -> str:
    return f"format_string('%.1f %%', {share} * 100)"
