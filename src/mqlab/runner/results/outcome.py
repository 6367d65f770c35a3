"""The outcome of a run, by the agents' own counts: its rates, and whether it can decide anything."""

from dataclasses import dataclass

from mqlab.runner.agents.pacing import AHEAD_SECONDS
from mqlab.runner.results.cpu import UNSAMPLED, CpuUse
from mqlab.study import Point
from mqlab.study.steadiness import MAX_GAP, is_judged


@dataclass(frozen=True)
class RunOutcome:
    """`counted_*` are the agents' own counts over the measure phase, which took `seconds`.

    `copies`: arrivals for each message sent. `cpu`: by the samples. `disturbed`, `unsteady`: why a complete run decides
    nothing, or "".
    """

    status: str
    reason: str = ""
    counted_sent: int = 0
    counted_received: int = 0
    counted_round_trips: int = 0
    seconds: float = 0.0
    copies: float = 1.0
    cpu: CpuUse = UNSAMPLED
    disturbed: str = ""
    unsteady: str = ""

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.counted_sent, self.counted_received, self.counted_round_trips

    def rate(self, point: Point) -> float:
        """The rate that the repetition rule of the point looks at."""
        return self.rates(point)["rate.work"]

    def rates(self, point: Point) -> dict[str, float]:
        """All rates by metric, and the CPU time; 0 if no time was counted, or the CPU was not sampled."""
        counted = {
            "rate.sent": self.counted_sent, "rate.received": self.counted_received,
            "rate.round_trips": self.counted_round_trips,
        }  # fmt: skip
        counted["rate.work"] = counted[point.work]
        rates = {name: count / self.seconds if self.seconds else 0.0 for name, count in counted.items()}
        work = rates["rate.work"]
        return rates | {"cpu.broker": self.cpu.broker, "cpu.message": self.cpu.cores / work if work else 0.0}


def why_unsteady(point: Point, outcome: RunOutcome, drained_s: float) -> str:
    """An early judgement from the agents' counts; the pipeline makes the final one. "" if nothing speaks against it.

    `drained_s`: from the last send to the last receipt. The last message took at least that long.
    """
    if not is_judged(point):
        return ""
    if drained_s > point.phases.warmup:
        return f"a latency of {drained_s:.3g} s was longer than the warm-up"
    expected = outcome.copies * outcome.counted_sent
    gap = abs(outcome.counted_received - expected)
    # Messages that a sender sends at once may be counted before the edge of a phase, and arrive behind it.
    senders = point.producers + point.requesters
    at_once = max(1, point.transaction, min(point.batch, expected / outcome.seconds * AHEAD_SECONDS / 2 / senders))
    is_gap = gap > max(MAX_GAP * expected, outcome.copies * at_once * senders)
    if not is_gap:
        return ""
    return f"arrivals differ from sends by {gap / expected:.0%}" if expected else "nothing was sent while messages came"
