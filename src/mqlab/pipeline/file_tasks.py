"""Tasks of Spark that look at whole files: their checksums, row groups and parts. Executors import this module."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqlab.events.compacted import UNREADABLE, examine_content, runs_of_name
from mqlab.json_values import JsonObject
from mqlab.pipeline.kernels.crc32c import crc32c

DESCRIPTIONS: Final = pa.schema({
    "path": pa.string(), "part": pa.string(), "checksum": pa.string(), "first_group": pa.int64(),
    "row_groups": pa.list_(pa.int64()),
})  # fmt: skip


def describe_files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`batches`: of files with their contents. A file that is not Parquet has no row groups.

    A compacted file has a row for each of its parts, unless its list of them is damaged.
    """
    for batch in batches:
        for path, content in zip(batch["path"].to_pylist(), batch["content"], strict=True):
            rows = _describe(path.rpartition("/")[2], content.as_buffer())
            yield pa.RecordBatch.from_pylist([{"path": path, **row} for row in rows], DESCRIPTIONS)


def describe_paths(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same of files at paths that this machine can read; a file that it cannot read has no row."""
    for path in (path for batch in batches for path in batch["path"].to_pylist()):
        try:
            content = pa.py_buffer(Path(path).read_bytes())
        except OSError:
            continue
        rows = _describe(Path(path).name, content)
        yield pa.RecordBatch.from_pylist([{"path": path, **row} for row in rows], DESCRIPTIONS)


def _describe(name: str, data: pa.Buffer) -> list[JsonObject]:
    is_compacted = runs_of_name(name) is not None
    parts = examine_content(name, memoryview(data), lambda crc, text: crc32c(text, crc)) if is_compacted else None
    if parts is not None:
        return [{**vars(part), "part": part.name} for part in parts]
    return [{"part": "", "checksum": f"{crc32c(data):08x}", "first_group": 0, "row_groups": _row_groups(data)}]


def _row_groups(data: pa.Buffer) -> list[int]:
    try:
        metadata = pq.read_metadata(pa.BufferReader(data))
    except UNREADABLE:
        return []
    return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
