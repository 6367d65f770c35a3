"""Records of operations in columns: many of them are one message, an Arrow IPC stream."""

from collections.abc import Sequence
from typing import Final, cast

import numpy as np
import pyarrow as pa

from mqlab.broker.server.trace.detail import DetailWriter, RawDetail, extra_json
from mqlab.errors import MqlabError
from mqlab.wire.native.payload import MalformedPayloadError

_int, _text = pa.int64(), pa.string()
# One operation of an application: when it began (ns since 1970) and how long it took until it was answered or, where
# nothing is answered, done. `code`: ok, or why not. `detail`: JSON, empty at the level low.
SCHEMA: Final = pa.schema([
    pa.field(name, kind, nullable=False)
    for name, kind in {
        "application": _text, "connection": _int, "operation": _text, "t": _int, "duration": _int,
        "destination": _text, "messages": _int, "bytes": _int, "code": _text, "detail": _text,
    }.items()
])  # fmt: skip

# The message is dictionary-encoded: the columns of texts hold numbers. It has the columns of raw details only if a
# record has details.
_COMMON: Final = ("application", "operation", "destination", "code")
_few: Final = pa.dictionary(pa.int16(), _text)
_WRITTEN: Final = pa.schema([
    field.with_type(_few) if field.name in _COMMON else field for field in SCHEMA if field.name != "detail"
])  # fmt: skip
_RAW: Final = {"marks": pa.int16(), "about": _few, "first": _int, "message": pa.binary(), "others": _text}
_DETAILED: Final = pa.schema([*_WRITTEN, *_RAW.items()])
_NO_DETAIL: Final[RawDetail] = (0, "", 0, None, None)
# Only details are compressed: they repeat themselves and make up most of a message.
_PLAIN: Final = pa.ipc.IpcWriteOptions(use_threads=False)
_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
# Bytes of one decoded message: other clients may have written to the queue.
_MOST_UNFOLDED: Final = 256 * 1024 * 1024
# Records in one message.
MOST: Final = 500
_LEAST, _LARGEST = -(2**63), 2**63 - 1
# Raw values of a record, one after the other in a flat list: see RawRecords.
WIDTH: Final = 6


class RecordLabels:
    """The values that all records of one kind of operation on one link share. Each object is its own key."""

    __slots__ = ("application", "code", "connection", "destination", "operation")

    def __init__(self, connection: int, application: str, operation: str, destination: str, code: str = "ok") -> None:
        self.connection = connection
        self.application = application
        self.operation = operation
        self.destination = destination
        self.code = code

    def with_code(self, code: str) -> "RecordLabels":
        return RecordLabels(self.connection, self.application, self.operation, self.destination, code)


# Labels, began, ended, messages, bytes, and RawDetail or None; then the next record. A flat list takes half the time
# of a list of tuples.
RawRecords = list[RecordLabels | int | RawDetail | None]


class BadRecordsError(MqlabError):
    """A message on the trace queue was not written by the trace."""


def encoded(rows: RawRecords) -> bytes:
    """One message of these records, at most MOST of them."""
    all_labels, count = cast(list[RecordLabels], rows[0::WIDTH]), len(rows) // WIDTH
    numbers = {labels: number for number, labels in enumerate(dict.fromkeys(all_labels))}
    label_numbers = pa.array(np.fromiter(map(numbers.__getitem__, all_labels), np.int16, count))
    began, ended, messages, size = (_whole(cast(list[int], rows[at::WIDTH])) for at in range(1, 5))
    details = cast(list[RawDetail | None], rows[5::WIDTH])
    detailed = any(details)
    texts = {name: pa.array([getattr(labels, name) for labels in numbers], _text) for name in _COMMON}
    columns = {name: pa.DictionaryArray.from_arrays(label_numbers, text, safe=False) for name, text in texts.items()}
    columns["connection"] = pa.array([labels.connection for labels in numbers], _int).take(label_numbers)
    columns |= {"t": pa.array(began), "duration": pa.array(np.maximum(ended - began, 0))}
    columns |= {"messages": pa.array(messages), "bytes": pa.array(size)}
    schema = _DETAILED if detailed else _WRITTEN
    if detailed:
        columns |= _raw_columns(details)
    batch = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_COMPRESSED if detailed else _PLAIN) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def decoded(data: bytes) -> pa.Table:
    """The records of one message. Raises BadRecordsError."""
    try:
        with pa.ipc.open_stream(data) as stream:
            schema = stream.schema
            if not (schema.equals(_WRITTEN) or schema.equals(_DETAILED)):
                raise BadRecordsError("the message does not have the columns of trace records")
            batches, size = [], 0
            for batch in stream:
                batch.validate(full=True)
                size += batch.nbytes
                if size > _MOST_UNFOLDED:
                    raise BadRecordsError(f"more than {_MOST_UNFOLDED} bytes in one message")
                batches.append(batch)
        raw = pa.Table.from_batches(batches, schema)
        details = _details(raw) if schema.equals(_DETAILED) else [""] * len(raw)
    except (pa.ArrowException, OSError, EOFError, MalformedPayloadError) as error:
        raise BadRecordsError(f"the message does not contain trace records: {error}") from None
    plain = raw.select(_WRITTEN.names).append_column(SCHEMA.field("detail"), pa.array(details, _text))
    return plain.select(SCHEMA.names).cast(SCHEMA)


def _raw_columns(details: list[RawDetail | None]) -> dict[str, pa.Array]:
    marks, prefixes, firsts, messages, extras = zip(*[detail or _NO_DETAIL for detail in details], strict=True)
    return {
        "marks": pa.array(marks, pa.int16()),
        "about": pa.array(prefixes, _text).dictionary_encode().cast(_few),
        "first": pa.array(_whole(firsts)),
        "message": pa.array(messages, pa.binary()),
        "others": pa.array([*map(extra_json, extras)], _text),
    }


def _whole(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """As int64. Clients send unsigned 64-bit numbers; those that do not fit become the largest int64."""
    try:
        return np.fromiter(values, np.int64, len(values))
    except OverflowError:
        return np.fromiter((max(_LEAST, min(value, _LARGEST)) for value in values), np.int64, len(values))


def _details(raw: pa.Table) -> list[str]:
    writer, left, details = DetailWriter(), _MOST_UNFOLDED, []
    for values in zip(*(raw[name].to_pylist() for name in _RAW), strict=True):
        if None in (values[0], values[1], values[2], values[4]):
            raise BadRecordsError("a record lacks a required value")
        details.append(writer.to_json(*values))
        left -= len(details[-1])
        if left < 0:
            raise BadRecordsError(f"more than {_MOST_UNFOLDED} bytes in one message")
    return details
