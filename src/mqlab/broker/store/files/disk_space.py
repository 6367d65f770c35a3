"""How much space a journal file takes, whether the disk has it, and when to try again after it had not."""

from typing import Final

# Between two attempts, if nothing was removed meanwhile: others may have made room.
RETRY_SECONDS: Final = 1.0


# The part of a file's size that is reserved on top of it: for what is consumed while the disk is full.
_KEPT_FREE_SHARE: Final = 8
# The part of that reserve which messages are granted at a time. What is consumed meanwhile is not asked for, and
# takes up to as much of the reserve.
_GRANT_SHARE: Final = 4
# Where no such message fits, the disk is full.
_SMALL: Final = 4096
# Where a file of full size cannot begin, one of a half, a quarter or an eighth may.
_HALVINGS: Final = 4


class FileSizes:
    """Bytes that a journal file of so many bytes takes ahead of what is written."""

    def __init__(self, size: int, *, preallocate: bool) -> None:
        # Messages may not use these.
        self.kept_free = kept = size // _KEPT_FREE_SHARE
        self.grant = max(1, kept // _GRANT_SHARE)
        # The disk is full where not even this fits.
        self.small = small = min(max(self.grant, _SMALL), size // 2)
        # What a new file may begin with, the best first.
        sizes = [size >> halving for halving in range(_HALVINGS)] if preallocate else [self.grant]
        self.reserves = tuple(one + kept for one in sizes if one >= small) or (small + kept,)


class FullDiskState:
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
