"""Conformance: whether a system with its driver does what the lab expects. One check for each feature.

For authors of drivers and systems, and for the tests of those that come with mqlab.
"""

import asyncio
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from mqlab.drivers import DriverError
from mqlab.runner.agents.bodies import ForeignMessageError
from mqlab.runner.capability import unsupported_features
from mqlab.runner.checks.feature_checks import CHECKS, NotConformingError, SystemUnderTest
from mqlab.study import FEATURES
from mqlab.systems import System, SystemFailedError

_CHECK_SECONDS: Final = 60.0

Result = Literal["works", "lacks", "fails"]


@dataclass(frozen=True)
class FeatureResult:
    """The result for one feature; `why` is the reason unless it works."""

    feature: str
    result: Result
    why: str = ""


async def check_conformance(
    system: System, folder: Path, report: Callable[[FeatureResult], None] = lambda _: None
) -> list[FeatureResult]:
    """Start the system with its data under `folder`, check all features, and stop it.

    `report` gets each result as soon as it is known. Raises SystemFailedError if the system cannot be started.
    """
    lacking = unsupported_features(system)
    running = await system.start(folder)
    results = []
    try:
        for feature in FEATURES:
            if feature not in CHECKS:
                continue
            results.append(await _check_feature(SystemUnderTest(system, running), feature, lacking))
            report(results[-1])
    finally:
        await running.stop()
    return results


async def _check_feature(tested: SystemUnderTest, feature: str, lacking: Mapping[str, str]) -> FeatureResult:
    if feature in lacking:
        return FeatureResult(feature, "lacks", lacking[feature])
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            await CHECKS[feature](tested)
    except TimeoutError:
        return FeatureResult(feature, "fails", f"the check did not end within {_CHECK_SECONDS:g} s")
    except (NotConformingError, ForeignMessageError, DriverError, SystemFailedError) as error:
        return FeatureResult(feature, "fails", str(error))
    except Exception as error:
        # An error in another package: its author needs the place.
        place = traceback.extract_tb(error.__traceback__)[-1]
        return FeatureResult(
            feature, "fails", f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"
        )
    return FeatureResult(feature, "works")
