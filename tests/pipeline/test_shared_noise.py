"""The Spark form of the shared noise does what the plain one does."""

import numpy as np
import pytest
from pyspark.sql import SparkSession

from mqlab.pipeline.kernels.shared_noise import moderate
from mqlab.study.shared_noise import RunNoise, moderated


@pytest.mark.parametrize(("points", "spread"), [(3, 0.0), (5, 0.0), (30, 0.0), (30, 1.0), (30, 4.0)])
def test_both_forms_agree(spark: SparkSession, points: int, spread: float) -> None:
    generator = np.random.default_rng(points)
    degrees = generator.integers(1, 12, points).tolist()
    variances = (np.exp(generator.normal(-6, spread, points)) * generator.chisquare(degrees) / degrees).tolist()
    own: list[RunNoise | None] = [RunNoise(*noise) for noise in zip(variances, degrees, strict=True)]
    # A single run has no variance, and a point whose runs agree exactly tells nothing of the noise.
    own += [None, RunNoise(0.0, 2)]
    rows = [("here", n, noise and noise.variance, noise and noise.degrees_of_freedom) for n, noise in enumerate(own)]
    rows.append(("elsewhere", 0, 0.5, 3))
    table = spark.createDataFrame(rows, "place string, n int, variance double, degrees_of_freedom int")
    found = {
        (row["place"], row["n"]): (row["variance"], row["degrees_of_freedom"])
        for row in moderate(table, ["place"], ["n"]).collect()
    }
    assert found.pop(("elsewhere", 0)) == (0.5, 3)
    for n, noise in enumerate(moderated(own)):
        if noise is None:
            assert found["here", n] == (None, None)
        else:
            assert found["here", n] == (pytest.approx(noise.variance, rel=1e-9), noise.degrees_of_freedom)
