"""A real system for the tests of a module: started once, and the common exchange that every driver must pass.

pytestmark = pytest.mark.needs_system("mosquitto")
up = real("mosquitto")

@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says(up: Real, feature: str) -> None:
    up.check(feature)
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from copy import copy
from typing import TypeVar

import pytest
import uvloop

from mqlab.runner.capability import unsupported_features
from mqlab.runner.checks.feature_checks import CHECKS, SystemUnderTest
from mqlab.systems import Running, System, system
from mqlab.systems.program import ProgramRunning

__all__ = ["CHECKS", "Real", "SystemUnderTest", "real"]

_START_SECONDS = 90.0
_CHECK_SECONDS = 60.0
Result = TypeVar("Result")


class Real:
    """`system` is up as `running`, in an event loop of its own that goes on from test to test."""

    def __init__(self, under_test: System, running: Running, runner: asyncio.Runner) -> None:
        self.system = under_test
        self.running = running
        self._runner = runner

    @property
    def tested(self) -> SystemUnderTest:
        """To connect to it, with names that nobody has used."""
        return SystemUnderTest(self.system, self.running)

    def over(self, driver: str) -> "Real":
        """The same one, through another of its drivers."""
        running = copy(self.running)
        assert isinstance(running, ProgramRunning)
        launch = running.launch
        running.address, running.options = launch.addresses[driver], launch.options.get(driver, {})
        return Real(self.system.with_settings({"driver": driver}), running, self._runner)

    def run(self, work: Coroutine[object, None, Result], seconds: float = _CHECK_SECONDS) -> Result:
        async def within() -> Result:
            async with asyncio.timeout(seconds):
                return await work

        return self._runner.run(within())

    def check(self, feature: str) -> None:
        """It does what the feature promises, or says why it lacks it; afterwards no task of the driver is left."""
        found = unsupported_features(self.system)
        if feature in found:
            assert found[feature], f"{self.system.name} does not say why it lacks {feature}"
            return

        async def checked() -> None:
            before = asyncio.all_tasks()
            await CHECKS[feature](self.tested)
            await asyncio.sleep(0)
            left = asyncio.all_tasks() - before
            assert not left, f"tasks are left: {left}"

        self.run(checked())


def real(text: str) -> Callable[..., Iterator[Real]]:
    """A fixture of the module: the system of that name and settings, from its first test to its last."""

    @pytest.fixture(scope="module")
    def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
        under_test = system(text)
        folder = tmp_path_factory.mktemp(under_test.name) / "data"
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            running = runner.run(asyncio.wait_for(under_test.start(folder), _START_SECONDS))
            try:
                yield Real(under_test, running, runner)
            finally:
                runner.run(running.stop())

    return up
