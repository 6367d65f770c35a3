"""The lock of a data folder: two brokers in one folder would destroy it."""

import fcntl
import os
from pathlib import Path

from mqlab.errors import MqlabError


class FolderInUseError(MqlabError):
    """Another broker is using the data folder."""


class FolderLock:
    """A lock that is held until `release`, or until the process ends in any way."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise FolderInUseError(f"{folder}: another broker is using this folder") from None

    def release(self) -> None:
        os.close(self._file)
