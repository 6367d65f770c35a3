"""Barriers: a command between messages whose answer tells that the system has accepted all messages before it.

They serve protocols that do not confirm messages but answer commands in order.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from mqlab.drivers.common.futures import AnyFuture
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, with_timeout

_BARRIERS_PER_WINDOW: Final = 4


class Barriers:
    """`send_barrier` sends a command that changes nothing; its future is done when the system has answered."""

    def __init__(self, send_barrier: Callable[[], AnyFuture]) -> None:
        self._send_barrier = send_barrier
        # Messages since the last barrier; for each unanswered barrier, the messages before it and its answer.
        self._since_barrier = 0
        self._unanswered: deque[tuple[int, AnyFuture]] = deque()
        self._pending = 0

    def add(self, messages: int) -> None:
        self._since_barrier += messages
        self._pending += messages

    def send(self) -> None:
        """Send a barrier now, if a message was sent since the last one."""
        if self._since_barrier:
            self._unanswered.append((self._since_barrier, self._send_barrier()))
            self._since_barrier = 0

    async def wait_answered(self, max_unanswered: int) -> None:
        """Return when at most `max_unanswered` barriers are unanswered. Raise DriverError."""
        while len(self._unanswered) > max_unanswered:
            messages, answer = self._unanswered[0]
            await with_timeout(answer, BLOCKED_TIMEOUT_S)
            self._unanswered.popleft()
            self._pending -= messages

    async def wait_accepted(self, max_pending: int = 0) -> None:
        """Return when at most `max_pending` messages are not known to be accepted. Raise DriverError."""
        # A few barriers in each window are enough: every barrier costs both sides some work.
        if self._since_barrier * _BARRIERS_PER_WINDOW >= max_pending:
            self.send()
        while self._pending > max_pending:
            await self.wait_answered(len(self._unanswered) - 1)
