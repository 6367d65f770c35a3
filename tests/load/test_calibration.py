"""Every driver that has a null peer is faster with it than any system can be."""

import pytest
import uvloop

from mqlab.drivers.nulls import NULLS
from mqlab.load.agents import AgentProcess
from mqlab.load.calibration import Calibration, calibrated, wanted

from .points import point


@pytest.mark.parametrize("driver", list(NULLS))
@pytest.mark.parametrize(("size", "batch"), [(12, 1000), (1024, 1), (100_000, 4)])
def test_both_ways(driver: str, size: int, batch: int) -> None:
    async def play() -> Calibration:
        agent = await AgentProcess.start(1)
        try:
            return await calibrated(driver, size, batch, point(), agent)
        finally:
            await agent.stop()

    found = uvloop.run(play())
    assert (found.driver, found.size, found.batch) == (driver, size, batch)
    assert found.sent is not None
    assert found.received is not None
    assert found.sent > 0
    assert found.received > 0


def test_only_points_that_wait_for_nothing_are_bound_by_the_driver_alone() -> None:
    points = [
        point(size=12, batch=100), point(size=12, batch=100), point(size=1024, batch=10),
        point(size=99, send="confirmed"), point(size=98, transaction=5),
    ]  # fmt: skip
    assert wanted("native", points) == [(12, 100), (1024, 10)]
    assert wanted("one without a null peer", points) == []
