"""Does a system with its driver do what the lab expects of it? One check a feature, each with a real exchange.

For the author of a driver or a recipe, and for the tests of those that come with mqlab.
"""

import asyncio
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from mqlab.drivers import DriverError
from mqlab.runner.agents.bodies import ForeignMessageError
from mqlab.runner.checks.feature_checks import CHECKS, NotConformingError, SystemUnderTest
from mqlab.runner.unsupported import lacks
from mqlab.study import FEATURES
from mqlab.systems import System, SystemFailedError

_CHECK_SECONDS: Final = 60.0

Result = Literal["works", "lacks", "fails"]


@dataclass(frozen=True)
class FeatureResult:
    feature: str
    result: Result
    why: str = ""


async def conforms(
    system: System, folder: Path, tell: Callable[[FeatureResult], None] = lambda _: None
) -> list[FeatureResult]:
    """Starts it under `folder`, and stops it. Raises SystemFailedError if it cannot be started."""
    lacking = lacks(system)
    running = await system.start(folder)
    found = []
    try:
        for feature in FEATURES:
            if feature not in CHECKS:
                continue
            found.append(await _checked(SystemUnderTest(system, running), feature, lacking))
            tell(found[-1])
    finally:
        await running.stop()
    return found


async def _checked(trial: SystemUnderTest, feature: str, lacking: Mapping[str, str]) -> FeatureResult:
    if feature in lacking:
        return FeatureResult(feature, "lacks", lacking[feature])
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            await CHECKS[feature](trial)
    except TimeoutError:
        return FeatureResult(feature, "fails", "it did not come to an end")
    except (NotConformingError, ForeignMessageError, DriverError, SystemFailedError) as error:
        return FeatureResult(feature, "fails", str(error))
    except Exception as error:
        # Of another package, which its author should find.
        at = traceback.extract_tb(error.__traceback__)[-1]
        return FeatureResult(
            feature, "fails", f"{type(error).__name__}: {error} ({Path(at.filename).name}, line {at.lineno})"
        )
    return FeatureResult(feature, "works")
