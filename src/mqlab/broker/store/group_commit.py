"""When to sync. One sync serves all that wait for it: how long to gather for it, and whether to wait for the last one?

Started the moment the last one ends, a sync carries only those who came meanwhile: with n producers that each wait
for their confirmation, about half, and every confirmation takes two syncs. So a sync holds back for those whom the
last one released, who are likely to be back at once; but only for a part of the time that syncs take here, which on a
fast disk is next to nothing. A lone sender holds back for nobody, and there is no fixed delay unless one is set.

Where they are fast, more time goes into handing one to a thread and hearing of it than into the disk: then whoever
waits alone is served at once, before anything else is done. One sync that is slow ends that.

Where syncs are slow, a second one may start while the first is under way: on a turning disk all that were asked for
before a mark complete at it, and who comes late for one sync need not wait for its end.
"""

from collections import deque
from typing import Final

# The longest of a few, since a sync on a turning disk takes anything from nothing to a whole turn.
_REMEMBERED: Final = 4
# The share of a sync's time that gathering for it may take.
_PATIENCE: Final = 0.25
# A sync under way for so long is a slow one: the next need not wait for its end. A fast one is over by then.
_SLOW_SECONDS: Final = 0.0005
# Each sync under way holds a thread.
MOST_UNDER_WAY: Final = 8


class Gathering:
    """Who waits for the next sync, and how long it should hold back for others. All times are seconds of one clock.

    `delay` is added to what is found worth while: a setting, to show what it does.
    """

    def __init__(self, delay: float = 0.0) -> None:
        self._delay = delay
        self.waiting: set[object] = set()
        self._since = 0.0
        self._released: set[object] = set()
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED)
        self._fast = False
        # Begun and not ended: when, and for whom.
        self._under_way: deque[tuple[float, set[object]]] = deque()

    def wait(self, waiter: object, now: float) -> None:
        if not self.waiting:
            self._since = now
        self.waiting.add(waiter)

    def hold_back(self, now: float) -> float | None:
        """Seconds until the next sync should begin, as far as is known now; None: not before another one has ended."""
        if not (self._under_way or self._delay) and self._released <= self.waiting:
            # By far the most, where one waits alone.
            return 0.0
        if len(self._under_way) >= MOST_UNDER_WAY:
            return None
        patience = 0.0 if self._all_are_back() else _PATIENCE * max(self._seconds, default=0.0)
        patience = self._since + (patience + self._delay) - now
        if self._under_way:
            patience = max(patience, self._under_way[-1][0] + _SLOW_SECONDS - now)
        return max(0.0, patience)

    @property
    def is_quick(self) -> bool:
        """One waits alone, and as far as can be told from the last few, a sync that begins now is a fast one."""
        return self._fast and len(self.waiting) == 1 and not self._under_way

    def begin(self, now: float) -> None:
        """A sync starts for all that wait now."""
        self._under_way.append((now, self.waiting))
        self.waiting = set()

    def end(self, seconds: float) -> None:
        """The oldest sync under way has ended; it took so long."""
        _, self._released = self._under_way.popleft()
        self._seconds.append(seconds)
        self._fast = len(self._seconds) == _REMEMBERED and max(self._seconds) < _SLOW_SECONDS

    def _all_are_back(self) -> bool:
        """Everybody whom the last sync released waits again, for this sync or for one under way."""
        missing = self._released - self.waiting
        for _, group in self._under_way:
            missing -= group
        return not missing
