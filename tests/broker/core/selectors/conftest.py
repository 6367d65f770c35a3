"""The Spark session of the pipeline's tests, for the comparison with Spark SQL."""

from pipeline.conftest import spark

__all__ = ["spark"]
