"""The trend test of Mann and Kendall: whether values that follow each other rise or fall.

Of all pairs of values, as many rise as fall if there is no trend, whatever their distribution; a step in the middle
makes a trend as well. Independent values without a trend give a score above `CRITICAL` in 1 % of all cases; equal
values make that rarer. The slope is that of Theil and Sen: the median of the slopes of all pairs.

H. B. Mann, Nonparametric tests against trend, Econometrica 13 (1945); M. G. Kendall, Rank correlation methods (1955);
P. K. Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 63 (1968).
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

# The 99.5 % quantile of the normal distribution: 0.5 % on each side.
CRITICAL: Final = 2.576


def trends(values: DataFrame, *series: str) -> DataFrame:
    """From (run, place, `series`) to run, `NAME_score` and `NAME_change` of each series. Places are 0, 1, 2, ...

    The score is the number of standard deviations by which rising pairs and falling pairs differ. The change is the
    slope times the number of values.
    """
    later = values.selectExpr("run", "place AS later", *(f"{name} AS {name}_later" for name in series))
    count = "(max(later) + 1)"
    deviation = f"sqrt({count} * ({count} - 1) * (2 * {count} + 5) / 18)"
    aggregates = []
    for name in series:
        difference = f"({name}_later - {name})"
        # One less: the continuity correction, since the sum is a whole number.
        rising = f"greatest(abs(sum(signum({difference}))) - 1, 0)"
        aggregates.append(f"{rising} / {deviation} AS {name}_score")
        aggregates.append(f"median({difference} / (later - place)) * {count} AS {name}_change")
    pairs = values.join(fn.broadcast(later), "run").where("place < later")
    return pairs.groupBy("run").agg(*map(fn.expr, aggregates))
