"""Limits the bytes of long frames that have not arrived completely, of all connections together."""

from typing import Final, Protocol

from mqlab.broker import limits

# The receive buffer of every connection; a frame that fits is not counted.
_CHUNK: Final = 64 * 1024


class FrameOwner(Protocol):
    def fail(self, code: str, message: str) -> None: ...


class UnfinishedFrames:
    """Above the limit, the connection is ended whose frame has not grown for the longest time.

    So a client that begins long frames and stops does not harm other clients. One frame alone may have any length up
    to the frame limit.
    """

    def __init__(self, memory_limit: int) -> None:
        self._limit = memory_limit // limits.UNFINISHED_SHARE
        # By connection; the one whose frame grew last is the last.
        self._held: dict[FrameOwner, int] = {}
        self.bytes = 0

    def note(self, connection: FrameOwner, size: int) -> bool:
        """The connection has received `size` bytes of a frame. Return whether they count."""
        self.bytes -= self._held.pop(connection, 0)
        if size <= _CHUNK:
            return False
        self._held[connection] = size
        self.bytes += size
        while self.bytes > self._limit and len(self._held) > 1:
            oldest = next(iter(self._held))
            self.forget(oldest)
            oldest.fail("limit", "the broker has no memory for the rest of a long frame that has stopped growing")
        return True

    def forget(self, connection: FrameOwner) -> None:
        self.bytes -= self._held.pop(connection, 0)
