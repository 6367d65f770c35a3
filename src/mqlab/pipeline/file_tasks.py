"""Tasks of Spark that look at whole files: their checksums and row groups. Executors import this module."""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqlab.pipeline.kernels.crc32c import crc32c

DESCRIPTIONS: Final = pa.schema({
    "path": pa.string(), "checksum": pa.string(), "row_groups": pa.list_(pa.int64()),
})  # fmt: skip


def describe_files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`batches`: of files with their contents. A file that is not Parquet has no row groups."""
    for batch in batches:
        for path, content in zip(batch["path"], batch["content"], strict=True):
            data = content.as_buffer()
            row = {"path": path.as_py(), "checksum": f"{crc32c(data):08x}", "row_groups": _row_groups(data)}
            yield pa.RecordBatch.from_pylist([row], DESCRIPTIONS)


def _row_groups(data: pa.Buffer) -> list[int]:
    try:
        metadata = pq.read_metadata(pa.BufferReader(data))
    except pa.ArrowException:
        return []
    return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
