"""Means of the values of runs with their 95 % intervals, and the ratio of two points' or two systems' means.

Values are arrays in the order of the runs, since the last digit of a floating-point sum depends on the order.

A ratio is one of geometric means, and its interval is computed on the logarithms: the ratio of A to B is exactly one
over that of B to A, and no interval reaches below zero.

Where the runs of the two were interleaved, each repetition that both have gives one ratio, which cancels what the
machine did at that time: the interval is Student's t of the logarithms of these ratios (`paired`). With fewer than two
of them it is Welch's interval, with the degrees of freedom rounded down, which makes it a little wider.

`looks`: how often the lab looked at the runs, to decide whether it needs more (study/statistics.py).

Expressions are SQL texts: Spark parses one sooner than it takes a call for each of its parts.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.kernels.shared_noise import moderate
from mqlab.study.statistics import look_quantile

# Beyond this number of degrees of freedom Student's t hardly falls; the last quantile serves, a little too wide.
_QUANTILES: Final = 100


def mean(values: str) -> str:
    return f"({_sum(values)} / size({values}))"


def half_width(looks: int) -> str:
    """Half the width of the interval of a mean, from the columns `variance`, `degrees_of_freedom` and `runs`."""
    return f"({quantile('degrees_of_freedom', looks)} * sqrt(variance / runs))"


def square_error(values: str) -> str:
    """The square of the standard error of the mean, of two values or more."""
    squares = f"transform({values}, value -> pow(value - {mean(values)}, 2))"
    return f"({_sum(squares)} / ((size({values}) - 1) * size({values})))"


def quantile(degrees_of_freedom: str, looks: int) -> str:
    """The quantile of Student's t for a 95 % interval; null below one degree of freedom."""
    quantiles = _double_array(look_quantile(degrees, looks) for degrees in range(1, _QUANTILES + 1))
    index = f"CAST(least({degrees_of_freedom}, {_QUANTILES}) AS INT)"
    return f"(CASE WHEN {degrees_of_freedom} > 0 THEN element_at({quantiles}, {index}) END)"


def _double_array(values: Iterable[float]) -> str:
    """As one literal, which Spark reads once: every rule of its planner would visit one for each value."""
    return f"CAST(split('{','.join(map(repr, values))}', ',') AS ARRAY<DOUBLE>)"


def _sum(values: str) -> str:
    return f"aggregate({values}, 0D, (total, value) -> total + value)"


def run_values(run_measures: DataFrame) -> DataFrame:
    """The values of each point, system and metric as an array `values` by repetition, where all are above zero.

    `run_measures` also say of each point whether it is `paced`.
    """
    in_order = fn.expr("array_sort(collect_list(struct(repetition, run, value)))")
    return (
        run_measures.groupBy("scenario", "point", "system", "metric", "paced")
        .agg(in_order.alias("values"))
        .where("forall(values, run -> run.value > 0)")
    )


def add_ratio(pairs: DataFrame, interleaved: str, looks: int, over: Sequence[str], order: Sequence[str]) -> DataFrame:
    """Add `ratio`, `low`, `high`, `paired`, `runs` and `degrees_of_freedom` to `pairs`.

    Its columns `first` and `second` are as in `run_values`. `runs` is the lower number. The noise of pairs is moderated
    by that of all pairs with the same columns `over`; `order` sorts these. `low` and `high` are null where nothing
    tells the noise: of sides that are not paired, if one has a single run; of a single pair, if there are few others.
    """
    same = "first.repetition = second.repetition"
    noisy = (
        pairs.selectExpr("*", "array_intersect(first.repetition, second.repetition) AS common")
        .selectExpr("*", f"({interleaved}) AND (size(common) > 1 OR {same}) AS paired")
        .selectExpr("*", f"{_logs('first')} AS logs_first", f"{_logs('second')} AS logs_second")
        .selectExpr(
            "*",
            "zip_with(logs_first, logs_second, (a, b) -> a - b) AS differences",
            f"{mean('logs_first')} - {mean('logs_second')} AS log_ratio",
            "least(size(logs_first), size(logs_second)) AS runs",
        )
        .selectExpr(
            "*",
            f"CASE WHEN paired AND runs > 1 THEN {square_error('differences')} * runs END AS variance",
            "runs - 1 AS degrees_of_freedom",
            f"CASE WHEN NOT paired THEN {_welch_degrees()} END AS welch_degrees",
        )
    )
    degrees = "CASE WHEN paired THEN degrees_of_freedom ELSE welch_degrees END AS degrees_of_freedom"
    half = f"CASE WHEN paired THEN {half_width(looks)} ELSE {_welch(looks)} END"
    return (
        moderate(noisy, over, order)
        .selectExpr("*", f"{half} AS half")
        .selectExpr(
            *pairs.columns,
            "exp(log_ratio) AS ratio", "exp(log_ratio - half) AS low", "exp(log_ratio + half) AS high",
            "paired", "runs", degrees,
        )
    )  # fmt: skip


def _logs(side: str) -> str:
    """The logarithms of the values; of pairs, those of the common repetitions."""
    chosen = f"filter({side}, run -> NOT paired OR array_contains(common, run.repetition))"
    return f"transform({chosen}, run -> ln(run.value))"


def wider_half_width(value: str, low: str, high: str) -> str:
    """The wider half of an interval: `value` plus or minus it covers the interval."""
    return f"CASE WHEN {low} IS NOT NULL THEN greatest({high} - {value}, {value} - {low}) END"


def _welch(looks: int) -> str:
    """Half the width of the interval of the difference of two means of logarithms; null if one has a single run."""
    both = f"({square_error('logs_first')} + {square_error('logs_second')})"
    half = f"{quantile('welch_degrees', looks)} * sqrt({both})"
    return f"CASE WHEN welch_degrees IS NOT NULL THEN CASE WHEN {both} > 0 THEN {half} ELSE 0D END END"


def _welch_degrees() -> str:
    """Its degrees of freedom, rounded down; null if one has a single run."""
    first, second = "size(logs_first)", "size(logs_second)"
    both = f"({square_error('logs_first')} + {square_error('logs_second')})"
    share = f"({square_error('logs_first')} / {both})"
    spread = f"(pow({share}, 2) / ({first} - 1) + pow(1 - {share}, 2) / ({second} - 1))"
    degrees = f"CASE WHEN {both} > 0 THEN floor(1 / {spread}) ELSE least({first}, {second}) - 1 END"
    return f"CAST(CASE WHEN {first} > 1 AND {second} > 1 THEN {degrees} END AS INT)"
