"""Checksums of event files: the name of a file contains the CRC32C of its content, `NAME.1a2b3c4d.parquet`.

So the pipeline finds a flipped bit anywhere (data, page headers, footer) before it reads the file. Parquet's own
checksums cover only the data of pages.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import google_crc32c
import pyarrow.parquet as pq

from mqlab.regular_file import open_regular

SUFFIX: Final = ".parquet"
_CHECKSUM: Final = re.compile(r"\.([0-9a-f]{8})\.parquet")
_RUN: Final = re.compile(r"run-(\d{1,9})\b")
_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class EventFile:
    """`checksum` is that of the present content. `damage` is why the file cannot be used; "" if it can.

    A file that only Spark reads has a `url`, and the sizes of its row groups in `row_groups`. A part of a compacted
    file has the name that it had, in `part`, and begins at the row group `first_group` of that file.
    """

    path: Path
    checksum: str
    damage: str = ""
    url: str = ""
    row_groups: tuple[int, ...] | None = None
    part: str = ""
    first_group: int = 0

    @property
    def name(self) -> str:
        """The name that the agent gave it, also if it is part of another file now."""
        return self.part or self.path.name

    @property
    def table(self) -> str:
        return self.path.parent.name

    @property
    def run(self) -> int | None:
        """The run whose events it contains; None if the name has no run."""
        match = _RUN.match(self.name)
        return int(match[1]) if match else None

    @property
    def group_numbers(self) -> list[int] | None:
        """Its row groups in the file; None: all."""
        if not self.part:
            return None
        return [*range(self.first_group, self.first_group + len(self.row_group_sizes()))]

    @property
    def location(self) -> str:
        """Where a task reads it."""
        return self.url or str(self.path)

    def row_group_sizes(self) -> tuple[int, ...]:
        if self.row_groups is not None:
            return self.row_groups
        metadata = pq.read_metadata(self.path)
        return tuple(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))


def file_name(name: str, content: bytes | memoryview) -> str:
    return f"{name}.{google_crc32c.value(bytes(content)):08x}{SUFFIX}"


def checksum(path: Path) -> str:
    """The checksum of the present content of a file. Raises OSError."""
    crc = 0
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            crc = google_crc32c.extend(crc, chunk)
    return f"{crc:08x}"


def examine(path: Path) -> EventFile:
    """Read the whole file and compare its checksum with that in its name."""
    try:
        present = checksum(path)
    except OSError as error:
        return EventFile(path, "", error.strerror or str(error))
    return EventFile(path, present, damage(path.name, present))


def damage(name: str, present: str) -> str:
    """Why a file of this name, with the present checksum, cannot be used; "" if it can."""
    expected = _CHECKSUM.search(name)
    if expected is None:
        return "has no checksum in its name"
    return "" if present == expected[1] else "does not match its checksum"
