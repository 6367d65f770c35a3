"""How far a producer that waits for nothing may be ahead of the system.

Whatever is under way when the load ends must still arrive, or the audit would not be exact. The buffers on the way to a
system hold a hundred thousand small messages: to a quick one that is nothing, to a slow one with many consumers a
minute of work. So the bound is a time: what the system takes in it, and no more, may not be taken yet.
"""

from typing import Final

from mqlab.drivers import Sender
from mqlab.runner.timeline import now

# Far longer than an answer takes, so the system never waits for the producer; far shorter than a measure phase.
AHEAD_SECONDS: Final = 0.1
_NANOSECONDS: Final = round(AHEAD_SECONDS * 1e9)
# Of all producers together at first, and of each at least.
_FIRST, _LEAST = 128, 8


class SendAhead:
    """`messages` is the bound. It follows what the system takes, at most to the double or the half at a time."""

    def __init__(self, most: int, producers: int = 1) -> None:
        """At most so many messages are sent at once, by one of so many producers."""
        self.messages = max(_LEAST, _FIRST // producers)
        self._most = most
        self._sent = 0
        self._since = now()

    @property
    def rows(self) -> int:
        """How many to send next: while the system is at work on these, as many wait for it."""
        return max(1, min(self._most, self.messages // 2))

    async def after(self, rows: int, sender: Sender) -> None:
        """Returns when the next may be sent. Raises DriverError."""
        await sender.wait_accepted(self.messages // 2)
        self._sent += rows
        if self._sent >= self.messages:
            took, self._since = now() - self._since, now()
            # What was sent is what was taken, since the rest of it is bounded.
            wanted = self._sent * _NANOSECONDS // max(1, took)
            self.messages = max(_LEAST, self.messages // 2, min(wanted, 2 * self.messages))
            self._sent = 0
