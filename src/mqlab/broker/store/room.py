"""Whether the disk has room, and when to try again after it had none."""

from typing import Final

# Between two attempts, if nothing was removed meanwhile: others may have made room.
RETRY_SECONDS: Final = 1.0


class Room:
    def __init__(self) -> None:
        # Why a file could not begin or grow; "" while there is room.
        self.reason = ""
        # The last write did not fit, and nothing is written until it does.
        self.stuck = False
        self._try_at = 0.0

    def lost(self, reason: str, now: float) -> None:
        self.reason = reason
        self._try_at = now + RETRY_SECONDS

    def found(self) -> None:
        self.reason = ""

    def hope(self) -> None:
        """Something was removed: the next attempt need not wait."""
        self._try_at = 0.0

    def may_try(self, now: float) -> bool:
        return not self.reason or now >= self._try_at
