"""The variance of each point, moderated by that of all: study/shared_noise.py in Spark, which says why."""

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame

from mqlab.study.shared_noise import BIAS, FEWEST_POINTS, MOST_SHARED, SPREAD


def moderate(table: DataFrame, over: Sequence[str], order: Sequence[str]) -> DataFrame:
    """Replace the columns `variance` and `degrees_of_freedom`, over rows with equal values of the columns `over`.

    `order`: columns that no two of those rows have in common. The last digit of a sum depends on the order.
    """
    group = (
        f"OVER (PARTITION BY {', '.join(over)} ORDER BY {', '.join(order)} "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
    )

    def used(value: str) -> str:
        return f"CASE WHEN variance > 0 THEN {value} END"

    logs = used(f"ln(variance) - {_element(BIAS, 'degrees_of_freedom')}")
    spreads = used(_element(SPREAD, "degrees_of_freedom"))
    pooled = f"exp(log_mean + {_element(BIAS, 'shared')})"
    both = f"(shared * {pooled} + degrees_of_freedom * variance) / (shared + degrees_of_freedom)"
    is_shared = f"variance IS NOT NULL AND points >= {FEWEST_POINTS} AND shared > 0"
    most = "greatest(degrees_of_freedom, total)"
    moderated = {
        "variance": f"CASE WHEN {is_shared} THEN greatest(variance, {both}) ELSE variance END",
        "degrees_of_freedom": (
            f"CASE WHEN {is_shared} THEN least(shared + degrees_of_freedom, {most}) ELSE degrees_of_freedom END"
        ),
    }
    return (
        table.selectExpr(
            "*",
            f"count({used('variance')}) {group} AS points",
            f"avg({logs}) {group} AS log_mean",
            f"sum({used('degrees_of_freedom')}) {group} AS total",
            f"var_samp({logs}) {group} - avg({spreads}) {group} AS excess",
        )
        .selectExpr("*", f"size(filter({double_array(SPREAD)}, spread -> spread > excess)) AS shared")
        .selectExpr(*(f"{moderated[name]} AS {name}" if name in moderated else name for name in table.columns))
    )


def double_array(values: Iterable[float]) -> str:
    """As one literal, which Spark reads once: every rule of its planner would visit one for each value."""
    return f"CAST(split('{','.join(map(repr, values))}', ',') AS ARRAY<DOUBLE>)"


def _element(values: Sequence[float], degrees: str) -> str:
    """The value for these degrees of freedom, 1 or more."""
    index = f"CAST(least({degrees}, {MOST_SHARED}) AS INT)"
    return f"CASE WHEN {degrees} > 0 THEN element_at({double_array(values)}, {index}) END"
