"""Checksums of event files: the name of a file carries the CRC32C of its whole content, `NAME.1a2b3c4d.parquet`.

So a flipped bit anywhere (data, page headers, footer) is found before anything is read from the file. Parquet's own
checksums cover the data of pages only.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq

from mqlab.regular_file import open_regular

SUFFIX: Final = ".parquet"
_CHECKSUM: Final = re.compile(r"\.([0-9a-f]{8})\.parquet")
_RUN: Final = re.compile(r"run-(\d{1,9})\b")
_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class EventFile:
    """`checksum` is that of the content as it is now. `damage` says why the file cannot be used; "": it can."""

    path: Path
    checksum: str
    damage: str = ""

    @property
    def run(self) -> int | None:
        """The run whose events it holds; None where the name does not tell."""
        found = _RUN.match(self.path.name)
        return int(found[1]) if found else None

    @property
    def has_checksum(self) -> bool:
        return expected_checksum(self.path) != ""


def file_name(name: str, content: bytes | memoryview) -> str:
    """The name of the file with this content."""
    return f"{name}.{google_crc32c.value(bytes(content)):08x}{SUFFIX}"


def expected_checksum(path: Path) -> str:
    """What the name of a file says; "" for files that were written before names had checksums."""
    found = _CHECKSUM.search(path.name)
    return found[1] if found else ""


def checksum(path: Path) -> str:
    """Of a file as it is now. Raises OSError."""
    found = 0
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            found = google_crc32c.extend(found, chunk)
    return f"{found:08x}"


def examine(path: Path) -> EventFile:
    """Reads the whole file. One without a checksum in its name is damaged if it cannot be decoded."""
    try:
        now = checksum(path)
    except OSError as error:
        return EventFile(path, "", error.strerror or str(error))
    expected = expected_checksum(path)
    if expected:
        return EventFile(path, now, "" if now == expected else "does not match its checksum")
    try:
        pq.ParquetFile(path, page_checksum_verification=True).read()
    except (OSError, pa.ArrowException):
        return EventFile(path, now, "cannot be decoded")
    return EventFile(path, now)
