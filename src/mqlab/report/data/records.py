"""The systems of a run, as its record names them."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class System:
    """A system as it was run. Its `stamps` go wherever its figures go.

    `durability` says in words what its confirmations and acknowledgements are worth, `witnessed` what was seen of it.
    `ahead_seconds`: a free producer was ahead by what the system takes in this time at most; None: as far as it let it.
    `rehearsals`: how many runs of a second went before those that count, until it got no quicker.
    """

    name: str
    version: str
    settings: dict[str, str]
    stamps: tuple[str, ...]
    durability: dict[str, str] = field(default_factory=dict)
    witnessed: str = ""
    ahead_seconds: float | None = None
    rehearsals: int = 0
