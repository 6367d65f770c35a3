"""The manifest: which journal files a store must have, and up to which record it had confirmed.

The journal files tell damage from a torn tail only as long as they are there. The manifest is a small file beside them,
written when a file begins, after its first confirmed record, before a file is removed, and when the broker stops in
good order: a sync or two for each file, none for each confirmation. It has two slots that are overwritten in turn, so
one is always whole, and a full disk has room for it. The header of each journal file names the store, which says that
there must be a manifest; stores from before the manifest get one when a broker first opens them.
"""

import json
import secrets
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import google_crc32c

from mqlab.broker.store.files.layer import Files

NAME: Final = "manifest"
# A multiple of the block size of any disk: a write of one slot cannot harm the other.
SLOT: Final = 4096
_STORE_ID_BYTES: Final = 8


@dataclass
class Manifest:
    # Id of the store; the header of each file from number `since` on names it, too.
    store: str = field(default_factory=lambda: secrets.token_hex(_STORE_ID_BYTES))
    since: int = 1
    # These files must be there. The last one had at least `size` bytes when it began.
    first: int = 1
    last: int = 0
    size: int = 0
    # All records up to this one were on disk; `is_clean`: and there are no others.
    lsn: int = 0
    is_clean: bool = False
    # How often the manifest was written.
    version: int = 0

    @classmethod
    def read(cls, folder: Path, files: Files) -> "Manifest | None":
        """None: the store has no manifest, or none that can be read."""
        path = folder / NAME
        try:
            data = files.read(path) if path.exists() else b""
        except OSError:
            return None
        slots = [slot for at in (0, SLOT) if (slot := _decode_slot(data[at : at + SLOT])) is not None]
        slots.sort(key=lambda slot: slot.version)
        if len(slots) == 2 and not slots[1].follows(slots[0]):
            return None
        return slots[-1] if slots else None

    def write(self, file: int, files: Files) -> None:
        """Write to an open file; it is on disk when this returns. After an OSError the one before is still there."""
        self.version += 1
        text = json.dumps(asdict(self)).encode()
        data = b"%08x %s\n" % (google_crc32c.value(text), text)
        assert len(data) <= SLOT, "the manifest is longer than its slot"
        files.overwrite(file, data.ljust(SLOT, b"\0"), SLOT * (self.version % 2))
        files.sync(file)

    def follows(self, before: "Manifest") -> bool:
        """Whether this may be written after that one: a manifest never goes back."""
        return self.store == before.store and (
            self.version >= before.version
            and self.first >= before.first
            and self.last >= before.last
            and self.lsn >= before.lsn
        )

    def missing(self, numbers: list[int]) -> list[int]:
        """The files that must be there and are not among these."""
        return sorted({*range(self.first, self.last + 1)} - {*numbers})

    def proves_durable(self, number: int, at: int) -> bool:
        """Whether byte `at` of a file was on disk: its header was, or all of the file since the broker had stopped."""
        return number <= self.last and (not at or self.is_clean)

    def mismatch(self, number: int, store: str, size: int) -> str:
        """Why a file with a readable header is not the one that was written, or ""."""
        if number >= self.since and store != self.store:
            return "it belongs to another store"
        if number == self.last and size < self.size:
            return f"it had at least {self.size} bytes, and has {size}"
        return ""


class ManifestFile:
    """The manifest of an open store."""

    def __init__(self, folder: Path, files: Files, content: Manifest) -> None:
        self.content = content
        self._files = files
        self._file = open_manifest_file(folder, files)
        if not content.version:
            # A new manifest is on disk before any file header names its store.
            self.update()

    # Any: `dataclasses.replace` has a parameter for each field, and mypy compares the values with all of them.
    def update(self, **changes: Any) -> None:
        """Change fields; they are on disk when this returns. Raises OSError."""
        content = replace(self.content, **changes)
        assert content.follows(self.content), f"the manifest goes back: {self.content} to {content}"
        self.content = content
        content.write(self._file, self._files)

    def close(self) -> None:
        self._files.close(self._file)


def mismatch_without_manifest(_number: int, store: str, _size: int) -> str:
    """As `Manifest.mismatch`, for a store without a manifest."""
    return f"the file {NAME!r} beside it, which lists the journal files, is missing or damaged" if store else ""


def open_manifest_file(folder: Path, files: Files) -> int:
    """A descriptor of the manifest's file, which is created if it is not there."""
    path = folder / NAME
    if path.exists():
        return files.reopen(path)
    file = files.create(path)
    # Takes the space of both slots.
    files.overwrite(file, bytes(2 * SLOT), 0)
    files.sync(file)
    files.sync_folder(folder)
    return file


def _decode_slot(slot: bytes) -> Manifest | None:
    crc, _, text = slot.rstrip(b"\0\n").partition(b" ")
    try:
        return Manifest(**json.loads(text)) if int(crc, 16) == google_crc32c.value(text) else None
    except (ValueError, TypeError):
        return None
