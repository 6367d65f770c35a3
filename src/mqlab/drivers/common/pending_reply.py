"""The reply that a requester waits for: the callback for it, and its time limit."""

import asyncio
from collections.abc import Callable

from mqlab.drivers.api import DriverError, OnReply, Reply
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, NO_REPLY


class PendingReply:
    """One at a time. A timer for each request would be dear, so one timer looks at the deadline of the current one."""

    def __init__(self, on_abandoned: Callable[[], object] | None = None) -> None:
        """`on_abandoned` is called when the requester stops waiting for a reply."""
        self._on_abandoned = on_abandoned
        self._loop = asyncio.get_running_loop()
        self._on_reply: OnReply | None = None
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        # The correlation id that the reply must have.
        self.correlation_id = ""

    def expect(self, correlation_id: str, on_reply: OnReply) -> None:
        """The time limit begins now."""
        self.correlation_id = correlation_id
        self._on_reply = on_reply
        self._deadline = self._loop.time() + BLOCKED_TIMEOUT_S
        if self._timer is None:
            self._timer = self._loop.call_at(self._deadline, self._check_deadline)

    def settle(self, reply: Reply | DriverError) -> None:
        """Hand the reply to the requester, if it still waits. Called by the reader of the socket."""
        on_reply, self._on_reply = self._on_reply, None
        if on_reply is not None:
            on_reply(reply)

    def fail(self, error: DriverError) -> None:
        """The same with an error of the request itself: the requester is still asking."""
        self._loop.call_soon(self.settle, error)

    def stop(self) -> None:
        """Wait no more, if a reply is expected."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._on_reply is not None:
            self._on_reply = None
            if self._on_abandoned is not None:
                self._on_abandoned()

    def _check_deadline(self) -> None:
        self._timer = None
        if self._on_reply is None:
            return
        if self._deadline > self._loop.time():
            self._timer = self._loop.call_at(self._deadline, self._check_deadline)
        else:
            on_reply = self._on_reply
            self.stop()
            on_reply(DriverError(f"{NO_REPLY} within {BLOCKED_TIMEOUT_S:g} s"))
