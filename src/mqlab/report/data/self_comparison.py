"""A system against itself (`mqlab run --aa`): every difference that is found is a false one."""

from dataclasses import dataclass

from mqlab.report.data.run_results import RunResults
from mqlab.study.self_comparison import twin_of


@dataclass(frozen=True)
class FalseDifferences:
    compared: int
    differing: int

    @property
    def share(self) -> float:
        return self.differing / self.compared if self.compared else 0.0

    def __str__(self) -> str:
        points = f"{self.differing} of {self.compared} points of a system differ from the same system"
        return f"{points} ({100 * self.share:.3g} %); chance alone makes 5 %"


def false_differences(results: RunResults) -> FalseDifferences | None:
    """None if no system was run against itself."""
    names = [system.name for system in results.systems]
    if not any(twin_of(name) in names for name in names):
        return None
    pairs = [
        (row.low, row.high)
        for row in results.comparisons
        if row.second == twin_of(row.first) and row.metric == "rate.work" and not row.over
    ]
    known = [(low, high) for low, high in pairs if low is not None and high is not None]
    return FalseDifferences(len(known), sum(not low <= 1 <= high for low, high in known))
