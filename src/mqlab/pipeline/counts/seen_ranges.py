"""The messages in event files of a run that goes on, as few ranges of sequence numbers.

A task reads the files and joins the ranges that touch each other, so that the process that follows the run keeps little
of it. Executors import this module: they have no package but numpy, pyarrow and pyspark.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from mqlab.events.schema import CONFIRMED, UNKNOWN
from mqlab.pipeline.counts.run_source import EventPartition, one_a_task, read_files
from mqlab.pipeline.kernels.run_deliveries import late_parts
from mqlab.pipeline.kernels.run_events import Array, array, highest_before, keys

# Kinds of ranges: sends, and receipts in the order of the producer, behind a later message, or marked as redelivered.
SENT: Final = 0
IN_ORDER: Final = 1
LATE: Final = 2
MARKED: Final = 3
# Ranges that are kept of a run. A run has one for each producer and subscription, and one more for each gap.
MOST_RANGES: Final = 100_000
_SCHEMA: Final = pa.schema({
    "kind": pa.int32(), "reader": pa.int32(), "destination": pa.int32(), "producer": pa.int32(), "first": pa.int64(),
    "end": pa.int64(),
})  # fmt: skip


class Ranges(NamedTuple):
    """Ranges [first, end) of the sequence numbers of producers. `reader`: a consumer or a subscription, by its number;
    0 for sends.
    """

    reader: Array
    destination: Array
    producer: Array
    first: Array
    end: Array

    @classmethod
    def none(cls) -> "Ranges":
        return cls(*(np.zeros(0, np.int64) for _ in cls._fields))

    @property
    def messages(self) -> int:
        return int((self.end - self.first).sum())

    def of(self, chosen: Array) -> "Ranges":
        return Ranges(*(column[chosen] for column in self))


def united(parts: Sequence[Ranges]) -> Ranges:
    """Every number of the parts once, in as few ranges as possible."""
    ranges = Ranges(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    ranges = ranges.of(ranges.first < ranges.end)
    if not len(ranges.first):
        return Ranges.none()
    key = keys([ranges.reader, ranges.destination, ranges.producer])
    order = np.lexsort((ranges.first, key))
    ranges = ranges.of(order)
    begins = np.flatnonzero(ranges.first > highest_before(key[order], ranges.end, ranges.first - 1))
    return ranges.of(begins)._replace(end=np.maximum.reduceat(ranges.end, begins))


def read_ranges(spark: SparkSession, sends: Sequence[str], receipts: Sequence[str]) -> dict[int, Ranges] | None:
    """The ranges in these files by kind; None if they are too many. The readers of receipts are consumers."""
    partition = EventPartition()
    partition.files |= {"sends": [(path, None) for path in sends], "receipts": [(path, None) for path in receipts]}
    rows = one_a_task(spark, [partition]).mapInArrow(_ranges_of, from_arrow_schema(_SCHEMA)).toArrow()
    if len(rows) > MOST_RANGES:
        return None
    kinds = array(rows["kind"])
    ranges = Ranges(*(array(rows[name]) for name in Ranges._fields))
    return {kind: ranges.of(kinds == kind) for kind in (SENT, IN_ORDER, LATE, MARKED)}


def _ranges_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for text in (text for batch in batches for text in batch["partition"].to_pylist()):
        files = EventPartition(**json.loads(text)).files
        for kind, ranges in ranges_by_kind(
            read_files("sends", files["sends"]), read_files("receipts", files["receipts"])
        ):
            columns = [np.full(len(ranges.first), kind), *ranges]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
            # One more than are kept says that they are too many.
            yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA).slice(0, MOST_RANGES + 1)


def ranges_by_kind(sends: pa.Table, receipts: pa.Table) -> Iterator[tuple[int, Ranges]]:
    outcome = sends["outcome"].cast(pa.string())
    counted = sends.filter(pc.or_(pc.equal(outcome, CONFIRMED), pc.equal(outcome, UNKNOWN)))
    first = array(counted["first_seq"])
    destination, producer = array(counted["destination"]), array(counted["producer"])
    yield SENT, united([Ranges(np.zeros_like(first), destination, producer, first, first + array(counted["count"]))])
    names = ("consumer", "destination", "producer", "first_seq", "count", "ordinal", "redelivered")
    parts = late_parts({name: array(receipts[name]) for name in names})
    ranges = Ranges(*(parts[name] for name in ("consumer", "destination", "producer", "first", "end")))
    is_marked, is_late = parts["redelivered"], parts["late"] & ~parts["redelivered"]
    for kind, chosen in ((IN_ORDER, ~is_marked & ~is_late), (LATE, is_late), (MARKED, is_marked)):
        yield kind, united([ranges.of(chosen)])
