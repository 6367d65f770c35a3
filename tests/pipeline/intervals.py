"""The intervals of means and ratios, with the noise that all points share, from the values of the runs."""

import math

import numpy as np

from mqlab.study.shared_noise import RunNoise, moderated
from table_rows import Row, Tables

Place = tuple[str, str]  # a scenario and a point


def values_of(tables: Tables, system: str, metric: str) -> dict[Place, dict[int, float]]:
    """By repetition."""
    found: dict[Place, dict[int, float]] = {}
    rows: list[Row] = [row for row in tables["run_measures"] if (row["system"], row["metric"]) == (system, metric)]
    for row in sorted(rows, key=lambda row: row["run"]):
        found.setdefault((row["scenario"], row["point"]), {})[row["repetition"]] = row["value"]
    return found


def half_width(tables: Tables, place: Place, system: str = "embedded", metric: str = "rate.received") -> float:
    """Of the mean at a place."""
    values = {point: [*runs.values()] for point, runs in values_of(tables, system, metric).items()}
    noises = dict(zip(values, moderated([RunNoise.of(runs) for runs in values.values()]), strict=True))
    noise = noises[place]
    assert noise is not None
    return float(np.mean(values[place])) * noise.half_width(len(values[place]), looks=1)


def paired_ratio(tables: Tables, place: Place, first: str, second: str) -> tuple[float, float, float]:
    """The ratio of two systems at a place, with the ends of its interval."""
    ours, theirs = (values_of(tables, system, "rate.received") for system in (first, second))
    logs = {
        point: [math.log(runs[n] / theirs[point][n]) for n in runs if n in theirs[point]]
        for point, runs in ours.items()
        if point in theirs
    }
    own = [RunNoise(float(np.var(each, ddof=1)), len(each) - 1) if len(each) > 1 else None for each in logs.values()]
    noise = dict(zip(logs, moderated(own), strict=True))[place]
    assert noise is not None
    middle, half = float(np.mean(logs[place])), noise.half_width(len(logs[place]), looks=1)
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)
