"""The progress of the runs, as the conductor reports it to those who watch."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FinishedRun:
    """A complete run, by the agents' counts. Of runs that shared their events, each setting has one."""

    system: str
    point: str
    rate: float
    # The half width of the interval, as a share of the mean, at which the point has enough runs; None: it has no rule.
    goal: float | None


@dataclass(frozen=True)
class Progress:
    runs_done: int
    # All runs up to the next look, which may ask for more.
    runs_expected: int
    label: str
    phase: str
    phase_seconds: float
    # The rate of the run before; None before the first.
    rate: float | None = None
    # Until the budget is spent, or until the expected runs are over at the present speed; None if nothing is known yet.
    seconds_left: float | None = None
    system: str = ""
    # Those since the step before.
    finished: Sequence[FinishedRun] = ()
    # Of the runs that are over: those without a complete record, and those that other work disturbed.
    incomplete: int = 0
    disturbed: int = 0
