"""What a study shows and what it says: exhibits and claims as values."""

from dataclasses import dataclass
from typing import Literal

Form = Literal["matrix", "bars", "summary", "settings", "diagram", "setup"]


@dataclass(frozen=True)
class Exhibit:
    """A table or figure. A field that its form has no use for is None; with `each`, there is one exhibit a scenario."""

    form: Form
    title: str  # holds {scenario} when there is one a scenario
    each: Literal["scenario"] | None = None
    rows: str | None = None
    columns: str | None = None
    bars: str | None = None
    value: str | None = None  # a metric

    def title_for(self, scenario: str) -> str:
        return self.title.replace("{scenario}", scenario)


@dataclass(frozen=True)
class Claim:
    """A sentence of a study: either `check` (see expression.py) or the reason why it is not testable."""

    id: str
    says: str
    source: str
    check: str | None = None
    not_testable: str | None = None
    note: str | None = None
