"""Every driver that has a null server is faster with it than any system can be."""

import pytest
import uvloop

from mqlab.drivers import DRIVERS
from mqlab.drivers.null_server import NULL_SERVERS
from mqlab.runner.agents.handle import AgentProcess
from mqlab.runner.checks.calibration import Calibration, calibrate, combinations, why_uncalibrated
from runner.points import point

# That of JMS needs the library of a provider: it is with the tests of these.
_HERE = sorted({*NULL_SERVERS} - {"jms"})


@pytest.mark.parametrize(("driver", "domain"), [*((name, "") for name in _HERE), ("resp", "topic")])
@pytest.mark.parametrize("size", [12, 1024, 100_000])
def test_both_ways(driver: str, domain: str, size: int) -> None:
    if driver == "amqp10":
        pytest.importorskip("proton", reason="python-qpid-proton is not installed")

    async def play() -> Calibration:
        agent = await AgentProcess.start(1)
        try:
            return await calibrate(driver, size, domain, point(), agent)
        finally:
            await agent.stop()

    found = uvloop.run(play())
    assert (found.driver, found.size, found.domain) == (driver, size, domain)
    assert found.sent is not None
    assert found.received is not None
    assert found.sent > 0
    assert found.received > 0


def test_only_points_that_wait_for_nothing_are_bound_by_the_driver_alone() -> None:
    points = [
        point(size=12), point(size=12), point(size=1024),
        point(size=99, send="confirmed"), point(size=98, transaction=5),
    ]  # fmt: skip
    assert combinations("native", points) == [(12, ""), (1024, "")]
    assert combinations("one without a null peer", points) == []


def test_every_driver_of_the_lab_has_a_null_peer() -> None:
    assert not [name for name in DRIVERS if why_uncalibrated(name)]
    assert why_uncalibrated("one of somebody else") == "it has no null server"


def test_a_protocol_with_two_ways_is_calibrated_in_both() -> None:
    points = [point(size=12), point(size=12, domain="topic")]
    assert combinations("native", points) == [(12, "")]
    assert combinations("resp", points) == [(12, "queue"), (12, "topic")]
