"""The runs of a point on a system while a study runs: what the next ones are chosen by."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf


@dataclass(kw_only=True, eq=False)
class PlayedRuns:
    """Counts and rates, as the agents counted them.

    `played`: repetitions; `attempts`: all runs, also those that were repeated; `unsteady`: those without a steady rate.
    `rates`: by repetition and metric, of the runs that count: complete, undisturbed and steady. `flagged`: those of the
    last other one. `seconds`: the time of the shortest run.
    """

    played: int = 0
    attempts: int = 0
    unsteady: int = 0
    rates: dict[int, Mapping[str, float]] = field(default_factory=dict)
    flagged: Mapping[str, float] | None = None
    seconds: float = inf

    @property
    def valid(self) -> int:
        return len(self.rates)

    @property
    def seconds_per_valid(self) -> float:
        """The expected time of one more run that counts, by the share of steady ones so far.

        A disturbed run says nothing of the point.
        """
        return self.seconds * (1 + self.unsteady / (self.valid + 1)) if self.attempts else 0.0
