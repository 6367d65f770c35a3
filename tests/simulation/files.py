"""The file layer of a simulated broker: it breaks off at any call, and forgets what a disk may forget."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

from broker.store.disk import RecordedFiles
from mqlab.wire.native.bodies import Buffer


class Crashed(BaseException):
    """The broker is no more. Nothing in it may catch this."""


class SimulatedFiles(RecordedFiles):
    """One life's. `crash_in` calls from now the process is gone, in the midst of that call; None: not by this."""

    def __init__(self, folder: Path, chance: random.Random, capacity: int | None) -> None:
        super().__init__(capacity)
        self.crash_in: int | None = None
        self._chance = chance
        self._open: set[int] = set()
        self._ended = False
        for path in folder.iterdir():
            self._sizes[path.name], self._reserved[path.name] = path.stat().st_size, 0

    def fail_a_sync_soon(self) -> None:
        self.fail_sync_at = self.syncs + self._chance.randint(1, 6)

    def fail_an_append_soon(self) -> None:
        self.fail_append_at = self.appends + self._chance.randint(1, 6)

    def end(self) -> None:
        """As the process ends: its descriptors are closed, and what is left of its objects cannot touch a file."""
        for file in self._open:
            os.close(file)
        self._open.clear()
        self._names.clear()
        self._ended = True

    # Calls that change something

    def create(self, path: Path) -> int:
        self._call()
        return self._opened(super().create(path))

    def append(self, file: int, data: bytes) -> None:
        if self._is_last_call():
            if not self._ended:
                self._append(file, data[: self._chance.randint(0, len(data))])
            raise Crashed
        super().append(file, data)

    def cut_back(self, file: int, size: int) -> None:
        self._call()
        super().cut_back(file, size)

    def sync(self, file: int) -> None:
        self._call()
        super().sync(file)

    def truncate(self, path: Path, size: int) -> None:
        self._call()
        super().truncate(path, size)
        self._sizes[path.name] = size

    def remove(self, path: Path) -> None:
        if path.name.startswith("page-"):
            path.unlink(missing_ok=True)
            return
        self._call()
        super().remove(path)

    def sync_path(self, path: Path) -> None:
        self._call()
        super().sync_path(path)

    def sync_folder(self, path: Path) -> None:
        self._call()
        super().sync_folder(path)

    def write_at(self, file: int, data: Buffer, offset: int) -> None:
        self._call()
        if self.capacity is not None and self._chance.random() < 0.2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write_at(file, data, offset)

    # Descriptors

    def reopen(self, path: Path) -> int:
        return self._opened(super().reopen(path))

    def open_to_read(self, path: Path) -> int:
        return self._opened(super().open_to_read(path))

    def create_page(self, path: Path) -> int:
        return self._opened(super().create_page(path))

    def close(self, file: int) -> None:
        if file in self._open:
            self._open.discard(file)
            super().close(file)

    def _opened(self, file: int) -> int:
        self._open.add(file)
        return file

    def _call(self) -> None:
        if self._is_last_call():
            raise Crashed

    def _is_last_call(self) -> bool:
        if self.crash_in is None:
            return self._ended
        self.crash_in -= 1
        return self.crash_in < 0
