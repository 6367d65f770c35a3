"""Rounds: which points get another run, after each look at the runs that there are.

Every point gets its least number of runs. Then, at each look (3, 6, 12 ... runs), those go on that need more: with a
budget of time, those that can still change a verdict; without one, those whose repetition rule is not met.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from mqlab.study import Point
from mqlab.study.repetition import INTERVAL
from mqlab.study.shared_noise import RunNoise, moderated
from mqlab.study.statistics import LOOKS
from mqlab.systems import System

SeriesKey = tuple[str, str, str]  # a system, a scenario and the name of a point
# The rates by metric of each repetition that is complete, undisturbed and steady, as the agents counted them.
CountedRates = Mapping[SeriesKey, Mapping[int, Mapping[str, float]]]
# From the rates so far and the seconds that are left: the points whose further runs can still change a verdict.
FindOpen = Callable[[CountedRates, float], Collection[SeriesKey]]


@dataclass(frozen=True)
class Budget:
    """The time for all runs; what it is spent on, beyond the least number of runs, `find_open` tells."""

    seconds: float
    find_open: FindOpen | None = None  # None: the points whose repetition rule is not met


@dataclass
class RunSeries:
    """The repetitions of one point on one system."""

    point: Point
    system: System
    played: int = 0
    rates: dict[int, Mapping[str, float]] = field(default_factory=dict)

    @property
    def key(self) -> SeriesKey:
        return self.system.label, self.point.scenario, self.point.name

    @property
    def values(self) -> list[float]:
        """The rates that the repetition rule looks at."""
        return [rates["rate.work"] for rates in self.rates.values()]

    def is_enough(self, noise: RunNoise | None) -> bool:
        rule = self.point.repeat.until
        return rule is not None and rule.is_met(self.values, noise)


class Rounds:
    """Yields, look by look, the number of runs to come to and the series that go on to it."""

    def __init__(self, series: Sequence[RunSeries], budget: Budget | None, started: float) -> None:
        """`started`: on the monotonic clock."""
        self._series = series
        self._budget = budget
        self._end = started + budget.seconds if budget else inf

    @property
    def seconds_left(self) -> float:
        """Infinite without a budget."""
        return self._end - time.monotonic()

    @property
    def _by_rule(self) -> bool:
        """Whether the repetition rules decide, and not the verdicts."""
        return self._budget is None or self._budget.find_open is None

    def goes_on(self, series: RunSeries, target: int | None) -> bool:
        """Whether another repetition is due on the way to `target` runs (None: the least number).

        Beyond the least number, the end of the time ends it; so does the rule of a study's own, whenever it is met.
        """
        repeat = series.point.repeat
        if target is None:
            return series.played < repeat.least
        if series.played >= min(target, repeat.most) or self.seconds_left <= 0:
            return False
        own_rule = self._by_rule and repeat.until is not None and repeat.until.kind != INTERVAL
        return not (own_rule and series.is_enough(None))

    def looks(self) -> Iterator[tuple[int, list[RunSeries]]]:
        most = max((series.point.repeat.most for series in self._series), default=0)
        targets = [*(runs for runs in LOOKS if runs < most), most]
        for target in targets:
            unfinished = [series for series in self._series if series.played < min(target, series.point.repeat.most)]
            if self.seconds_left <= 0:
                return
            chosen = self._choose(unfinished)
            if chosen:
                yield target, chosen

    def _choose(self, unfinished: Sequence[RunSeries]) -> list[RunSeries]:
        if self._budget is not None and self._budget.find_open is not None:
            found = self._budget.find_open({series.key: series.rates for series in self._series}, self.seconds_left)
            return [series for series in unfinished if series.key in found]
        noise = self._noise()
        return [series for series in unfinished if not series.is_enough(noise.get(series.key))]

    def _noise(self) -> dict[SeriesKey, RunNoise | None]:
        """The noise of a run of each point, by the runs of all points on its system."""
        noise: dict[SeriesKey, RunNoise | None] = {}
        for system in {series.system.label for series in self._series}:
            own = [series for series in self._series if series.system.label == system]
            noise |= zip(
                (series.key for series in own), moderated([RunNoise.of(series.values) for series in own]), strict=True
            )
        return noise
