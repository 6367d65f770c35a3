"""The manifest: which journal files a store must have, and how far it had confirmed.

The files tell damage from a torn tail only as long as they are there. So a small file beside them is written when a
file begins, after its first confirmed record, before a file is removed, and when the broker stops in good order: a sync
or two for each file, none for each confirmation. It has two slots that are overwritten in turn: one is always whole,
and a full disk has room for it. The head of each file names the store, and so says that there must be a manifest;
stores of before have none, and get one when a broker first opens them.
"""

import json
import secrets
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import google_crc32c

from mqlab.broker.store.files.layer import Files

NAME: Final = "manifest"
# Blocks of any disk: no write of one slot can harm the other.
SLOT: Final = 4096
_STORE_BYTES: Final = 8


@dataclass
class Manifest:
    # Which store this is; the head of each file from number `since` on says it, too.
    store: str = field(default_factory=lambda: secrets.token_hex(_STORE_BYTES))
    since: int = 1
    # These files must be there. The last had at least so many bytes when it was begun.
    first: int = 1
    last: int = 0
    size: int = 0
    # All records up to this one were on disk; `is_clean`: and there are no others.
    lsn: int = 0
    is_clean: bool = False
    # How often it was written.
    version: int = 0

    @classmethod
    def read(cls, folder: Path, files: Files) -> "Manifest | None":
        """None: the store has none, or none that can be read."""
        path = folder / NAME
        try:
            data = files.read(path) if path.exists() else b""
        except OSError:
            return None
        slots = [found for at in (0, SLOT) if (found := _decoded(data[at : at + SLOT])) is not None]
        return max(slots, key=lambda one: one.version, default=None)

    def write(self, file: int, files: Files) -> None:
        """To an open file; it is on disk when this returns. Raises OSError, and then the one before it is."""
        self.version += 1
        text = json.dumps(asdict(self)).encode()
        data = b"%08x %s\n" % (google_crc32c.value(text), text)
        files.overwrite(file, data.ljust(SLOT, b"\0"), SLOT * (self.version % 2))
        files.sync(file)

    def missing(self, numbers: list[int]) -> list[int]:
        """Files that must be there and are not among these."""
        return sorted({*range(self.first, self.last + 1)} - {*numbers})

    def was_begun(self, number: int, at: int) -> bool:
        """Byte `at` of a file was on disk: its head was, or all of it and nothing else. No crash tears that."""
        return number <= self.last and (not at or self.is_clean)

    def fault(self, number: int, store: str, size: int) -> str:
        """Why a file whose head can be read is not the one that was written, or ""."""
        if number >= self.since and store != self.store:
            return "it belongs to another store"
        if number == self.last and size < self.size:
            return f"it had at least {self.size} bytes, and has {size}"
        return ""


class ManifestFile:
    """The manifest of an open store. What is noted is on disk when `note` returns; that raises OSError."""

    def __init__(self, folder: Path, files: Files, content: Manifest) -> None:
        self.content = content
        self._files = files
        self._file = open_manifest_file(folder, files)
        if not content.version:
            # A new one is there before any file says that there is one.
            self.note()

    def note(self, **changes: Any) -> None:
        self.content = replace(self.content, **changes)
        self.content.write(self._file, self._files)

    def close(self) -> None:
        self._files.close(self._file)


def mismatch_without_manifest(_number: int, store: str, _size: int) -> str:
    """As `Manifest.fault`, where there is none."""
    return f"the file {NAME!r} beside it, which lists the journal files, is missing or damaged" if store else ""


def open_manifest_file(folder: Path, files: Files) -> int:
    """A descriptor of the manifest's file, which is there then."""
    path = folder / NAME
    if path.exists():
        return files.reopen(path)
    file = files.create(path)
    # The space of both slots.
    files.overwrite(file, bytes(2 * SLOT), 0)
    files.sync(file)
    files.sync_folder(folder)
    return file


def _decoded(slot: bytes) -> Manifest | None:
    crc, _, text = slot.rstrip(b"\0\n").partition(b" ")
    try:
        return Manifest(**json.loads(text)) if int(crc, 16) == google_crc32c.value(text) else None
    except (ValueError, TypeError):
        return None
