"""A system that was measured, from the record of the run."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class MeasuredSystem:
    """A system as it was run. Its `stamps` stand beside all its figures.

    `durability`: what its confirmations and acknowledgements guarantee; `witnessed`: what the sync check observed.
    `ahead_seconds`: the longest lead of a free producer, as the time in which the system takes the messages; None: no
    limit. `rehearsals`: the number of warm-up runs of a second.
    """

    name: str
    version: str
    settings: dict[str, str]
    stamps: tuple[str, ...]
    durability: dict[str, str] = field(default_factory=dict)
    witnessed: str = ""
    ahead_seconds: float | None = None
    rehearsals: int = 0
