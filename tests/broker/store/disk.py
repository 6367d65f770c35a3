"""A file layer that records every call, and a model of what a disk may hold after a power failure."""

from __future__ import annotations

import copy
import errno
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.manifest import NAME as MANIFEST

Image = dict[str, bytes]

# What a disk writes or does not write as a whole. Real ones have 512 or 4,096 bytes; small ones tear more records.
BLOCK = 64


class Call(NamedTuple):
    """One call of the file layer, or a note of the test between two calls."""

    what: str
    name: str = ""
    data: bytes = b""
    size: int = 0
    note: object = None


class RecordedFiles(Files):
    """The real files. Records every call that changes something; one call can be made to fail.

    With a capacity, it is a disk of so many bytes.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self.log: list[Call] = []
        self.capacity = capacity
        self.can_reserve = True
        self.fail_sync_at = -1
        self.fail_append_at = -1
        self.fail_create_at = -1
        # What a failing create says: access denied.
        self.create_error = errno.EACCES
        self.creates = 0
        self.reserves = 0
        self.syncs = 0
        self.appends = 0
        self._names: dict[int, str] = {}
        self._sizes: dict[str, int] = {}
        self._reserved: dict[str, int] = {}

    @property
    def free(self) -> int:
        if self.capacity is None:
            return 1 << 60
        return self.capacity - sum(max(size, self._reserved.get(name, 0)) for name, size in self._sizes.items())

    def create(self, path: Path) -> int:
        # Of journal files: what happens to them is counted, and may fail.
        self.creates += path.name != MANIFEST
        if path.name != MANIFEST and self.creates == self.fail_create_at:
            raise OSError(self.create_error, os.strerror(self.create_error))
        file = super().create(path)
        self._names[file] = path.name
        self._sizes[path.name] = self._reserved[path.name] = 0
        self.log.append(Call("create", path.name))
        return file

    def reserve(self, file: int, size: int) -> bool:
        if not self.can_reserve:
            return False
        self.reserves += 1
        name = self._names[file]
        if size > self.free + max(self._sizes[name], self._reserved[name]):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._reserved[name] = max(size, self._reserved[name])
        return True

    def give_back(self, file: int, size: int) -> None:  # noqa: ARG002
        self._reserved[self._names[file]] = 0

    def trim(self, path: Path, size: int) -> None: ...

    def reopen(self, path: Path) -> int:
        file = super().reopen(path)
        self._names[file] = path.name
        return file

    def append(self, file: int, data: bytes) -> None:
        self.appends += 1
        if self.appends == self.fail_append_at:
            # A part of it is written.
            self._append(file, data[: len(data) // 2])
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        name = self._names[file]
        room = self.free + max(0, self._reserved[name] - self._sizes[name])
        if len(data) > room:
            self._append(file, data[: max(0, room)])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._append(file, data)

    def _append(self, file: int, data: bytes) -> None:
        super().append(file, data)
        self._sizes[self._names[file]] += len(data)
        self.log.append(Call("append", self._names[file], data))

    def cut_back(self, file: int, size: int) -> None:
        super().cut_back(file, size)
        self._sizes[self._names[file]] = size
        self.log.append(Call("cut", self._names[file], size=size))

    def overwrite(self, file: int, data: bytes, offset: int) -> None:
        super().overwrite(file, data, offset)
        self.log.append(Call("write", self._names[file], data, size=offset))

    def sync(self, file: int) -> None:
        self.syncs += self._names[file] != MANIFEST
        if self._names[file] != MANIFEST and self.syncs == self.fail_sync_at:
            raise OSError(5, "Input/output error")
        self.log.append(Call("sync", self._names[file]))

    def close(self, file: int) -> None:
        super().close(file)
        # Files that are only read have no name here.
        self._names.pop(file, None)

    def close_all(self) -> None:
        for file in [*self._names]:
            self.close(file)

    def truncate(self, path: Path, size: int) -> None:
        super().truncate(path, size)
        self.log.append(Call("truncate", path.name, size=size))

    def remove(self, path: Path) -> None:
        super().remove(path)
        self._sizes.pop(path.name, None)
        self.log.append(Call("remove", path.name))

    def sync_path(self, path: Path) -> None:
        self.log.append(Call("sync", path.name))

    def sync_folder(self, path: Path) -> None:  # noqa: ARG002 - there is one folder
        self.log.append(Call("sync_folder"))


@dataclass(eq=False)
class Inode:
    synced: bytes = b""
    # Appends since, each of which may be on disk or not.
    pending: list[bytes] = field(default_factory=list)
    # Writes in the midst of it, at an offset; a file has these or appends.
    writes: list[tuple[int, bytes]] = field(default_factory=list)

    @property
    def whole(self) -> bytes:
        return written_over(self.synced, self.writes) if self.writes else self.synced + b"".join(self.pending)

    def sync(self) -> None:
        self.synced, self.pending, self.writes = self.whole, [], []


class Disk:
    """What is safe, and what is only on its way, after the calls made so far."""

    def __init__(self, image: Image) -> None:
        self.safe = {name: Inode(data) for name, data in image.items()}
        self.names = dict(self.safe)
        # Names made (an inode) or removed (None) since the folder was last synced.
        self.renamed: list[tuple[str, Inode | None]] = []

    def do(self, call: Call) -> None:
        if call.what == "create":
            self.names[call.name] = Inode()
            self.renamed.append((call.name, self.names[call.name]))
        elif call.what == "append":
            self.names[call.name].pending.append(call.data)
        elif call.what == "sync":
            self.names[call.name].sync()
        elif call.what == "write":
            self.names[call.name].writes.append((call.size, call.data))
        elif call.what == "cut":
            inode = self.names[call.name]
            assert call.size >= len(inode.synced)
            inode.pending = [inode.whole[len(inode.synced) : call.size]]
        elif call.what == "truncate":
            inode = self.names[call.name]
            inode.synced, inode.pending = inode.whole[: call.size], []
        elif call.what == "remove":
            del self.names[call.name]
            self.renamed.append((call.name, None))
        elif call.what == "sync_folder":
            self.safe, self.renamed = dict(self.names), []

    def copy(self) -> Disk:
        """One that goes its own way from here."""
        return copy.deepcopy(self)

    def after_kill(self) -> Image:
        """The process is gone, the machine is not: everything written is there."""
        return {name: inode.whole for name, inode in self.names.items()}

    def after_power_failure(self, chance: random.Random) -> Iterator[Image]:
        """Ways in which a disk may come back: nothing, some, or the wrong half of what was on its way."""
        yield self._image(self.safe, lambda inode: inode.synced)
        yield self._image(self._some_names(chance), lambda inode: _some_blocks(inode, chance))
        yield self._image(self.names, lambda inode: _later_without_earlier(inode, chance))

    def _some_names(self, chance: random.Random) -> dict[str, Inode]:
        names = dict(self.safe)
        for name, inode in self.renamed:
            if chance.random() < 0.5:
                if inode is None:
                    names.pop(name, None)
                else:
                    names[name] = inode
        return names

    def _image(self, names: dict[str, Inode], content: Callable[[Inode], bytes]) -> Image:
        return {name: content(inode) for name, inode in names.items()}


def written_over(data: bytes, writes: list[tuple[int, bytes]]) -> bytes:
    for offset, piece in writes:
        data = data[:offset].ljust(offset, b"\0") + piece + data[offset + len(piece) :]
    return data


def _some_writes(inode: Inode, chance: random.Random) -> bytes:
    """Each is there, or not, or its beginning."""
    kept = [(offset, piece[: chance.choice((0, chance.randrange(400), len(piece)))]) for offset, piece in inode.writes]
    return written_over(inode.synced, kept)


def _some_blocks(inode: Inode, chance: random.Random) -> bytes:
    """Each block of what was on its way is there or is zeros; the file ends after the last one that is there."""
    if inode.writes:
        return _some_writes(inode, chance)
    data = bytearray(inode.whole)
    end = len(inode.synced)
    for begin in range(len(inode.synced) // BLOCK * BLOCK, len(data), BLOCK):
        first, last = max(begin, len(inode.synced)), min(begin + BLOCK, len(data))
        if chance.random() < 0.6:
            end = last
        else:
            data[first:last] = bytes(last - first)
    return bytes(data[:end])


def _later_without_earlier(inode: Inode, chance: random.Random) -> bytes:
    """All of what was on its way is there but for one block near its beginning."""
    if inode.writes:
        return _some_writes(inode, chance)
    begin, data = len(inode.synced), bytearray(inode.whole)
    if len(data) == begin:
        return bytes(data)
    hole = begin + chance.randrange(min(len(data) - begin, 4 * BLOCK))
    last = min(hole + chance.randint(1, BLOCK), len(data))
    data[hole:last] = bytes(last - hole)
    return bytes(data)


def write_image(folder: Path, image: Image) -> None:
    """Make a folder hold just these files."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name, data in image.items():
        (folder / name).write_bytes(data)
