"""When to sync. One sync serves all that wait for it; the question is how long to gather before it starts.

Started the moment the last one ends, a sync carries only those who came meanwhile: with n producers that each wait
for their confirmation, about half, and every confirmation takes two syncs. So after a sync the next one waits for those
it has just released, who are likely to be back at once. A lone sender waits for nobody, there is no fixed delay, and
patience never exceeds what the last syncs themselves took: on a fast disk gathering is not worth the time.
"""

from collections import deque
from typing import Final

# The longest of a few, since a sync on a turning disk takes anything from nothing to a whole turn.
_REMEMBERED: Final = 4


class Gathering:
    """Who waits for the next sync, and whether to wait for others."""

    def __init__(self) -> None:
        self.waiting: set[object] = set()
        self._released: set[object] = set()
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED)

    @property
    def patience(self) -> float:
        return max(self._seconds, default=0.0)

    @property
    def enough(self) -> bool:
        """Everybody whom the last sync released is back."""
        return self._released <= self.waiting

    def begin(self) -> set[object]:
        """A sync starts for all that wait now."""
        group, self.waiting = self.waiting, set()
        return group

    def end(self, group: set[object], seconds: float) -> None:
        self._released = group
        self._seconds.append(seconds)
