"""How much space a journal file reserves, whether the disk has it, and when to try again after it had not."""

from typing import Final

# Between two attempts, unless a file was removed meanwhile: other programs may have freed space.
RETRY_SECONDS: Final = 1.0
# The share of a file's size that is reserved in addition: for removes while the disk is full.
_RESERVE_SHARE: Final = 8
# The share of that reserve which messages are granted at a time. Removes take space without asking, up to as much.
_GRANT_SHARE: Final = 4
# If no message of this size fits, the disk is full.
_SMALL_BYTES: Final = 4096
# If a file of full size cannot begin, one of a half, a quarter or an eighth may.
_HALVINGS: Final = 4


class FileSizes:
    """Bytes that a journal file of a given size reserves ahead of what is written."""

    def __init__(self, size: int, *, preallocate: bool) -> None:
        # Messages may not use these.
        self.kept_free = kept = size // _RESERVE_SHARE
        self.grant = max(1, kept // _GRANT_SHARE)
        # If not even this fits, the disk is full.
        self.small = small = min(max(self.grant, _SMALL_BYTES), size // 2)
        # The sizes with which a new file may begin, the best first.
        sizes = [size >> halving for halving in range(_HALVINGS)] if preallocate else [self.grant]
        self.reserves = tuple(begin_size + kept for begin_size in sizes if begin_size >= small) or (small + kept,)


class FullDiskState:
    def __init__(self) -> None:
        # Why a file could not begin or grow; "" while the disk has room.
        self.reason = ""
        # The last write did not fit, and nothing is written until it does.
        self.write_blocked = False
        self._retry_at = 0.0

    def set_full(self, reason: str, now: float) -> None:
        self.reason = reason
        self._retry_at = now + RETRY_SECONDS

    def clear(self) -> None:
        self.reason = ""

    def retry_soon(self) -> None:
        """A file was removed: the next attempt need not wait."""
        self._retry_at = 0.0

    def may_try(self, now: float) -> bool:
        return not self.reason or now >= self._retry_at
