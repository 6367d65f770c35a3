"""95 % intervals of means, from the values of runs.

Values are arrays in the order of the runs, since the last digit of a floating-point sum depends on the order.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from mqlab.study.statistics import t975

# Beyond this number of degrees of freedom Student's t hardly falls; the last quantile serves, a little too wide.
_QUANTILES: Final = 100


def mean(values: Column) -> Column:
    return _sum(values) / fn.size(values)


def half_width(values: Column) -> Column:
    """Half the width of the interval of the mean; null for a single value."""
    count = fn.size(values)
    return fn.when(count > 1, quantile(count - 1) * fn.sqrt(square_error(values)))


def square_error(values: Column) -> Column:
    """The square of the standard error of the mean, of two values or more."""
    centre = mean(values)
    count = fn.size(values)
    return _sum(fn.transform(values, lambda value: fn.pow(value - centre, 2))) / ((count - 1) * count)


def quantile(degrees_of_freedom: Column) -> Column:
    """The 97.5 % quantile of Student's t, for one degree of freedom or more."""
    quantiles = fn.array(*(fn.lit(t975(degrees)) for degrees in range(1, _QUANTILES + 1)))
    return fn.element_at(quantiles, fn.least(degrees_of_freedom, fn.lit(_QUANTILES)).cast("int"))


def _sum(values: Column) -> Column:
    return fn.aggregate(values, fn.lit(0.0), lambda total, value: total + value)
