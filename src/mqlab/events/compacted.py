"""The format of compacted event files: the rows of many event files in one, each of them in row groups of its own.

Each former file is a part of the compacted one. Key-value metadata in the footer lists the parts: the name that each
had, which has its run and its checksum, the sizes of its row groups, where its bytes end, and the CRC32C of the
compacted file up to there. The checksum in the name of the compacted file is that of the whole, as in all event files.

So every part, and the footer behind the last, is checked on its own, from the checksum before it to the one behind it:
a flipped bit is found in its part, and the others stay proven. Executors import this module, so it needs only pyarrow.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

PARTS_KEY: Final = "mqlab.parts"
# A compacted file has runs that are less than this far apart.
MAX_RUNS: Final = 1000
COMPACTED_PREFIX: Final = "runs-"
_NAME: Final = re.compile(COMPACTED_PREFIX + r"(\d{1,9})-(\d{1,9})\.([0-9a-f]{8})\.parquet")
_PART_CHECKSUM: Final = re.compile(r"\.([0-9a-f]{8})\.parquet$")

# The errors of reading a damaged footer.
UNREADABLE: Final = (OSError, ValueError, OverflowError, MemoryError, pa.ArrowException)
# A file and the numbers of some of its row groups; None: all of them.
FileGroups: TypeAlias = tuple[str, list[int] | None]
# Continues the CRC32C of a text with the bytes behind it.
Extend: TypeAlias = Callable[[int, memoryview], int]


class Part(NamedTuple):
    """An entry of the metadata. `crc`: of the compacted file up to `end`."""

    name: str
    row_groups: list[int]
    end: int
    crc: int


@dataclass(frozen=True)
class ExaminedPart:
    """A part as it is now. `checksum` is the one in its name if its rows are those that were compacted."""

    name: str
    checksum: str
    first_group: int
    row_groups: tuple[int, ...]


def compacted_name(first_run: int, last_run: int) -> str:
    """The name of a compacted file, without its checksum."""
    return f"{COMPACTED_PREFIX}{first_run:05d}-{last_run:05d}"


def runs_of_name(name: str) -> range | None:
    """The runs that a compacted file may have; None if the name is not that of a compacted file."""
    match = _NAME.fullmatch(name)
    runs = range(int(match[1]), int(match[2]) + 1) if match else range(0)
    return runs if 0 < len(runs) <= MAX_RUNS else None


def examine_content(name: str, content: memoryview, extend: Extend) -> list[ExaminedPart] | None:
    """The parts of a compacted file; None if its footer is damaged, so that nothing in it can be trusted."""
    match = _NAME.fullmatch(name)
    parts = _read_parts(content)
    if match is None or parts is None:
        return None
    last, expected = parts[-1], int(match[3], 16)
    # Most files are whole, and one long text is checked faster than many short ones.
    is_whole = extend(0, content) == expected
    if not is_whole and extend(last.crc, content[last.end :]) != expected:
        return None
    examined, begin, crc, group = [], 0, 0, 0
    for part in parts:
        present = part.crc if is_whole else extend(crc, content[begin : part.end])
        checksum = _checksum_in(part.name) if present == part.crc else f"{present:08x}"
        examined.append(ExaminedPart(part.name, checksum, group, tuple(part.row_groups)))
        begin, crc, group = part.end, part.crc, group + len(part.row_groups)
    return examined


def part_names(path: str) -> list[str]:
    """The names of the parts of a compacted file, which is not checked; [] if they cannot be read."""
    try:
        return [part.name for part in _decode(pq.read_metadata(path)) or ()]
    except UNREADABLE:
        return []


def _read_parts(content: memoryview) -> list[Part] | None:
    try:
        return _decode(pq.read_metadata(pa.BufferReader(pa.py_buffer(content))))
    except UNREADABLE:
        return None


def _decode(metadata: pq.FileMetaData) -> list[Part] | None:
    try:
        parts = [Part(*entry) for entry in json.loads((metadata.metadata or {})[PARTS_KEY.encode()])]
    except (KeyError, ValueError, TypeError):
        return None
    # It is checked later: a flipped bit may have made anything of it.
    numbers = (number for part in parts for number in (part.end, part.crc))
    is_sound = all(isinstance(number, int) and 0 <= number < 1 << 63 for number in numbers)
    return parts if parts and is_sound and parts[-1].crc < 1 << 32 else None


def join_groups(files: Iterable[FileGroups]) -> list[FileGroups]:
    """In the same order, with the row groups of one file together where they follow each other."""
    joined: list[FileGroups] = []
    for path, numbers in files:
        last = joined[-1][1] if joined and joined[-1][0] == path else None
        if last is not None and numbers is not None:
            last.extend(numbers)
        else:
            joined.append((path, None if numbers is None else [*numbers]))
    return joined


def read_groups(schema: pa.Schema, files: Iterable[FileGroups]) -> pa.Table:
    """All rows of these row groups, with the columns of the schema."""
    tables = [schema.empty_table()]
    for path, numbers in files:
        with pq.ParquetFile(path) as opened:
            every = range(opened.num_row_groups) if numbers is None else numbers
            tables.append(with_columns(opened.read_row_groups(every, schema.names), schema))
    return pa.concat_tables(tables)


def with_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the columns of the schema; one that may be null, and that an earlier version did not write, is."""
    for field in schema:
        if field.nullable and field.name not in rows.column_names:
            rows = rows.append_column(field, pa.repeat(pa.scalar(None, field.type), len(rows)))
    return rows.select(schema.names).cast(schema)


def encode_parts(parts: list[Part]) -> str:
    return json.dumps(parts, separators=(",", ":"))


def _checksum_in(name: str) -> str:
    match = _PART_CHECKSUM.search(name)
    return match[1] if match else ""
