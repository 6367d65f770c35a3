"""The share of the pipeline in the time of a command."""

import pytest

from mqlab.cli.pipeline_time import PipelineTime


def test_passes_are_summed_also_one_that_fails() -> None:
    now = iter([100.0, 110.0, 112.0, 130.0, 131.0, 140.0])
    time = PipelineTime(lambda: next(now))
    with time.running():
        pass
    with pytest.raises(OSError, match="full"), time.running():
        raise OSError("full")
    assert time.sentence() == "the pipeline took 3 of 40 s (8 %)"
