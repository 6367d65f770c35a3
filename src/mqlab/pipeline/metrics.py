"""Metrics of a run as rows (run, metric, value): the form that rates, latencies and resources share."""

from pyspark.sql import DataFrame


def to_metric_rows(wide: DataFrame, metrics: dict[str, str], *keys: str) -> DataFrame:
    """Return rows (run, `keys`, metric, value) for each of `metrics`, by its SQL; a null value has no row."""
    pairs = (f"struct('{name}' AS metric, CAST({value} AS DOUBLE) AS value)" for name, value in metrics.items())
    known = f"filter(array({', '.join(pairs)}), pair -> pair.value IS NOT NULL)"
    return wide.selectExpr("run", *keys, f"inline({known})")
