"""Questions between messages: a protocol that confirms no message by itself still answers in order."""

from asyncio import Future
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, with_timeout

_BARRIERS_PER_WINDOW: Final = 4


class Barriers:
    """`ask` asks the system something; its answer says that all messages sent before were taken."""

    def __init__(self, send_barrier: "Callable[[], Future[Any]]") -> None:
        self._send_barrier = send_barrier
        # Sent since the last question; before each question since the one before it, with its answer.
        self._since_barrier = 0
        self._unanswered: deque[tuple[int, Future[Any]]] = deque()
        self._pending = 0

    def add(self, messages: int) -> None:
        self._since_barrier += messages
        self._pending += messages

    def send(self) -> None:
        """Ask now, if anything was sent since."""
        if self._since_barrier:
            self._unanswered.append((self._since_barrier, self._send_barrier()))
            self._since_barrier = 0

    async def wait_answered(self, max_unanswered: int) -> None:
        """Returns when no more than so many questions are unanswered. Raises DriverError."""
        while len(self._unanswered) > max_unanswered:
            messages, answer = self._unanswered[0]
            await with_timeout(answer, BLOCKED_TIMEOUT_S)
            self._unanswered.popleft()
            self._pending -= messages

    async def wait_accepted(self, max_pending: int = 0) -> None:
        """Returns when no more than so many messages are not known to be taken. Raises DriverError."""
        # A few times in what may be under way is enough: each question is one more thing that both sides do.
        if self._since_barrier * _BARRIERS_PER_WINDOW >= max_pending:
            self.send()
        while self._pending > max_pending:
            await self.wait_answered(len(self._unanswered) - 1)
