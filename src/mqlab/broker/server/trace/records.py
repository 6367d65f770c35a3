"""Records of operations in columns: many of them are one message, an Arrow IPC stream."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mqlab.broker.server.trace.detail import More, Texts, told
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

# In the message, what many records have in common stands there once; the columns have numbers for it. Details are there
# as raw values, and only where there are any.
_COMMON: Final = ("application", "operation", "destination", "code")
_few: Final = pa.dictionary(pa.int16(), _text)
_WRITTEN: Final = pa.schema([
    field.with_type(_few) if field.name in _COMMON else field for field in SCHEMA if field.name != "detail"
])  # fmt: skip
_RAW: Final = {"marks": pa.int16(), "about": _few, "first": _int, "message": pa.binary(), "others": _text}
_DETAILED: Final = pa.schema([*_WRITTEN, *_RAW.items()])
_NOTHING: Final[More] = (0, "", 0, None, None)
# Details repeat themselves, and most of a message is details where there are any.
_PLAIN: Final = pa.ipc.IpcWriteOptions(use_threads=False)
_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
# What one message may unfold to: it comes from a queue that others may have written to.
_MOST_UNFOLDED: Final = 256 * 1024 * 1024
MOST: Final = 2_000
_LEAST, _LARGEST = -(2**63), 2**63 - 1
# Raw values of a record, one after the other in a flat list: see Rows.
WIDTH: Final = 6


class Subject:
    """What the records of one kind of operation of one link have in common. Each is its own key."""

    __slots__ = ("application", "code", "connection", "destination", "operation")

    def __init__(self, connection: int, application: str, operation: str, destination: str, code: str = "ok") -> None:
        self.connection = connection
        self.application = application
        self.operation = operation
        self.destination = destination
        self.code = code

    def but(self, code: str) -> "Subject":
        return Subject(self.connection, self.application, self.operation, self.destination, code)


# Subject, began, ended, messages, bytes, and More or None; then the next record. One flat list costs half of what a
# list of tuples would.
Rows = list[Any]


class BadRecordsError(MqlabError, ValueError):
    """What lies on the queue of the trace was not put there by the trace."""


def encoded(rows: Rows) -> bytes:
    """One message of these records, at most MOST of them."""
    subjects, count = rows[0::WIDTH], len(rows) // WIDTH
    place = {subject: number for number, subject in enumerate(dict.fromkeys(subjects))}
    which = pa.array(np.fromiter(map(place.__getitem__, subjects), np.int16, count))
    began, ended, messages, size = (_whole(rows[at::WIDTH]) for at in range(1, 5))
    found: list[More | None] = rows[5::WIDTH]
    detailed = any(found)
    texts = {name: pa.array([getattr(subject, name) for subject in place], _text) for name in _COMMON}
    columns = {name: pa.DictionaryArray.from_arrays(which, text, safe=False) for name, text in texts.items()}
    columns["connection"] = pa.array([subject.connection for subject in place], _int).take(which)
    columns |= {"t": pa.array(began), "duration": pa.array(np.maximum(ended - began, 0))}
    columns |= {"messages": pa.array(messages), "bytes": pa.array(size)}
    schema = _DETAILED if detailed else _WRITTEN
    if detailed:
        columns |= _raw(found)
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
                raise BadRecordsError("these are not the columns of a trace")
            batches, size = [], 0
            for batch in stream:
                batch.validate(full=True)
                size += batch.nbytes
                if size > _MOST_UNFOLDED:
                    raise BadRecordsError(f"more than {_MOST_UNFOLDED} bytes in one message")
                batches.append(batch)
        found = pa.Table.from_batches(batches, schema)
        details = _details(found) if schema.equals(_DETAILED) else [""] * len(found)
    except (pa.ArrowException, OSError, EOFError, MalformedPayloadError) as error:
        raise BadRecordsError(f"no records of a trace: {error}") from None
    plain = found.select(_WRITTEN.names).append_column(SCHEMA.field("detail"), pa.array(details, _text))
    return plain.select(SCHEMA.names).cast(SCHEMA)


def _raw(found: list[More | None]) -> dict[str, pa.Array]:
    marks, abouts, firsts, messages, others = zip(*[more or _NOTHING for more in found], strict=True)
    return {
        "marks": pa.array(marks, pa.int16()),
        "about": pa.array(abouts, _text).dictionary_encode().cast(_few),
        "first": pa.array(_whole(firsts)),
        "message": pa.array(messages, pa.binary()),
        "others": pa.array([*map(told, others)], _text),
    }


def _whole(values: Sequence[int]) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Clients may send any number of 64 bits without a sign; a record has the highest that it can have for it."""
    try:
        return np.fromiter(values, np.int64, len(values))
    except OverflowError:
        return np.fromiter((max(_LEAST, min(value, _LARGEST)) for value in values), np.int64, len(values))


def _details(found: pa.Table) -> list[str]:
    texts, left, details = Texts(), _MOST_UNFOLDED, []
    for raw in zip(*(found[name].to_pylist() for name in _RAW), strict=True):
        if None in (raw[0], raw[1], raw[2], raw[4]):
            raise BadRecordsError("a record without the values that all have")
        details.append(texts.of(*raw))
        left -= len(details[-1])
        if left < 0:
            raise BadRecordsError(f"more than {_MOST_UNFOLDED} bytes in one message")
    return details
