"""Send-ahead: how far a producer that does not wait for confirmations may be ahead of the system.

Messages that are on their way when the load ends must still arrive, or the audit would not be exact. Socket buffers
hold a hundred thousand small messages: a minute of work for a slow system with many consumers. So the bound is a time:
at most the messages that the system accepts in this time may be sent and not yet accepted.
"""

from typing import Final

from mqlab.drivers import Sender
from mqlab.runner.timeline import now

# Much longer than a round trip, so the system never waits for the producer; much shorter than a measure phase.
AHEAD_SECONDS: Final = 0.1
_AHEAD_NS: Final = round(AHEAD_SECONDS * 1e9)
# The first bound, of all producers together, and the smallest one of each, in messages.
_FIRST, _MIN = 128, 8


class SendAhead:
    """`messages` is the bound. It follows the system's rate; each step at most doubles or halves it."""

    def __init__(self, max_count: int, producers: int = 1) -> None:
        """For one of `producers` producers, which sends at most `max_count` messages at once."""
        self.messages = max(_MIN, _FIRST // producers)
        self._max_count = max_count
        self._sent = 0
        self._since = now()

    @property
    def next_count(self) -> int:
        """How many messages to send next: half of the bound, so the other half keeps the system busy meanwhile."""
        return max(1, min(self._max_count, self.messages // 2))

    async def after(self, count: int, sender: Sender) -> None:
        """Called after `count` messages were sent: returns when the next may be sent. Raises DriverError."""
        await sender.wait_accepted(self.messages // 2)
        self._sent += count
        if self._sent >= self.messages:
            elapsed_ns, self._since = now() - self._since, now()
            # The system has accepted about as many messages as were sent, since the difference is bounded.
            target = self._sent * _AHEAD_NS // max(1, elapsed_ns)
            self.messages = max(_MIN, self.messages // 2, min(target, 2 * self.messages))
            self._sent = 0
