"""Bytes of long frames that have not arrived whole: those of all connections together are bounded."""

from typing import Final, Protocol

from mqlab.broker import limits

# Every connection has memory for so many bytes; a frame that fits is not counted.
_CHUNK: Final = 64 * 1024


class FrameOwner(Protocol):
    def fail(self, code: str, message: str) -> None: ...


class UnfinishedFrames:
    """Above the limit the connection ends whose frame has not grown for the longest time.

    So a client that begins long frames and stops holds up no other client; one frame alone may have any length that
    a frame can have.
    """

    def __init__(self, memory_limit: int) -> None:
        self._limit = memory_limit // limits.UNFINISHED_SHARE
        # By connection, the one whose frame has grown last at the end.
        self._held: dict[FrameOwner, int] = {}
        self.bytes = 0

    def note(self, connection: FrameOwner, size: int) -> bool:
        """The connection holds so many bytes of a frame now. Returns whether they count."""
        self.bytes -= self._held.pop(connection, 0)
        if size <= _CHUNK:
            return False
        self._held[connection] = size
        self.bytes += size
        while self.bytes > self._limit and len(self._held) > 1:
            oldest = next(iter(self._held))
            self.forget(oldest)
            oldest.fail("limit", "the broker has no memory for the rest of a long frame that has stopped to grow")
        return True

    def forget(self, connection: FrameOwner) -> None:
        self.bytes -= self._held.pop(connection, 0)
