"""Rounds: which points get another run, after each look at the runs that there are.

Every point gets its least number of runs. Then, at each look, those go on that need more, each up to its own next look
(3, 6, 12 ... runs): with a budget of time, those that can still change a verdict, first those that do so soonest;
without one, those whose repetition rule is not met.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from mqlab.events.schema import COMPLETE
from mqlab.runner.results.outcome import RunOutcome
from mqlab.study import Point
from mqlab.study.repetition import INTERVAL
from mqlab.study.rounds.played import PlayedRuns
from mqlab.study.shared_noise import RunNoise, moderated
from mqlab.study.statistics import next_look
from mqlab.systems import System

SeriesKey = tuple[str, str, str]  # a system, a scenario and the name of a point
# A look takes time in which nothing is run: the next one is due after so many times its length.
_BETWEEN_LOOKS: Final = 10
# From the runs so far and the seconds that are left: the points whose further runs can still change a verdict, first
# those that can do so soonest.
FindOpen = Callable[[Mapping[SeriesKey, PlayedRuns], float], Sequence[SeriesKey]]


@dataclass(frozen=True)
class Budget:
    """The time for all runs; what it is spent on, beyond the least number of runs, `find_open` tells."""

    seconds: float
    find_open: FindOpen | None = None  # None: the points whose repetition rule is not met


@dataclass(eq=False)
class RunSeries(PlayedRuns):
    """The repetitions of one point on one system."""

    point: Point
    system: System
    # How often the next repetition was disturbed.
    repeats: int = 0

    @property
    def key(self) -> SeriesKey:
        return self.system.label, self.point.scenario, self.point.name

    @property
    def values(self) -> list[float]:
        """The rates that the repetition rule looks at."""
        return [rates["rate.work"] for rates in self.rates.values()]

    @property
    def next_look(self) -> int:
        return next_look(self.played, self.point.repeat.most)

    def add_run(self, repetition: int, outcome: RunOutcome, seconds: float, *, is_repeated: bool) -> None:
        """`seconds`: its time. `is_repeated`: it was disturbed, and the repetition is not over."""
        self.seconds = min(self.seconds, seconds)
        self.attempts += 1
        self.unsteady += bool(outcome.unsteady) and not outcome.disturbed
        self.repeats = self.repeats + 1 if is_repeated else 0
        self.played += not is_repeated
        if outcome.status == COMPLETE:
            if outcome.disturbed or outcome.unsteady:
                self.flagged = outcome.rates(self.point)
            else:
                self.rates[repetition] = outcome.rates(self.point)

    def is_enough(self, noise: RunNoise | None) -> bool:
        rule = self.point.repeat.until
        return rule is not None and rule.is_met(self.values, noise)


class Rounds:
    """Yields, look by look, the series that go on and the number of runs that each comes to."""

    def __init__(self, series: Sequence[RunSeries], budget: Budget | None, started: float) -> None:
        """`started`: on the monotonic clock."""
        self._series = series
        self._budget = budget
        self._end = started + budget.seconds if budget else inf
        self._next_look = inf

    @property
    def is_look_due(self) -> bool:
        """Whether the verdicts may have changed by now: what was chosen at the last look is chosen anew."""
        return time.monotonic() >= self._next_look

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
        if series.played >= target or self.seconds_left <= 0:
            return False
        own_rule = self._by_rule and repeat.until is not None and repeat.until.kind != INTERVAL
        return not (own_rule and series.is_enough(None))

    def looks(self) -> Iterator[dict[SeriesKey, int]]:
        """The targets of the chosen series, in the order in which they are played. It ends if none of them was."""
        before = -1
        while self.seconds_left > 0 and (now := sum(series.attempts for series in self._series)) > before:
            before = now
            unfinished = {series.key: series for series in self._series if series.played < series.point.repeat.most}
            started = time.monotonic()
            chosen = self._choose(unfinished)
            if not chosen:
                return
            ended = time.monotonic()
            self._next_look = inf if self._by_rule else ended + _BETWEEN_LOOKS * (ended - started)
            yield {key: unfinished[key].next_look for key in chosen}

    def _choose(self, unfinished: Mapping[SeriesKey, RunSeries]) -> list[SeriesKey]:
        if self._budget is not None and self._budget.find_open is not None:
            found = self._budget.find_open({series.key: series for series in self._series}, self.seconds_left)
            return [key for key in found if key in unfinished]
        noise = self._noise()
        return [key for key, series in unfinished.items() if not series.is_enough(noise.get(key))]

    def _noise(self) -> dict[SeriesKey, RunNoise | None]:
        """The noise of a run of each point, by the runs of all points of its kind on its system."""
        noise: dict[SeriesKey, RunNoise | None] = {}
        for kind in {(series.system.label, series.point.is_paced) for series in self._series}:
            own = [series for series in self._series if (series.system.label, series.point.is_paced) == kind]
            noise |= zip(
                (series.key for series in own), moderated([RunNoise.of(series.values) for series in own]), strict=True
            )
        return noise
