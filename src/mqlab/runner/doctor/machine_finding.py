"""The findings of the checks of a machine."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

# How much it matters: not at all; figures scatter more; figures are wrong, or runs fail; it cannot be told here.
Weight = Literal["fine", "some", "much", "unknown"]
_ORDER: Final[dict[Weight, int]] = {"unknown": 0, "fine": 0, "some": 1, "much": 2}


@dataclass(frozen=True)
class MachineFinding:
    """`measured`: its size, in words. `effect` and `cure` are "" where it does not matter."""

    check: str
    weight: Weight
    measured: str
    effect: str = ""
    cure: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.check, "; ".join(filter(None, (self.measured, self.effect))))))


def worst(findings: Iterable[MachineFinding]) -> MachineFinding | None:
    """The first of those that matter most; None if none matters."""
    found = max(findings, key=lambda finding: _ORDER[finding.weight], default=None)
    return found if found is not None and _ORDER[found.weight] else None
