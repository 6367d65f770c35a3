"""Payloads with headers and properties, in one line each."""

from collections.abc import Iterable, Mapping

import pyarrow as pa

from mqlab.broker.core.model.messages import Span
from mqlab.wire.native.bodies import Payload, decode
from mqlab.wire.native.columns import HEADERS, PROPERTY, Value, column, encode_columns, encode_single

Row = tuple[bytes, Mapping[str, Value]]

_ARROW = {
    "u": pa.binary(16), "q": pa.int64(), "s": pa.string(), "b": pa.int8(), "?": pa.bool_(), "d": pa.float64(),
}  # fmt: skip


def single(body: bytes, **values: Value) -> Payload:
    """One message without a record batch. Names that are no header are properties."""
    names = tuple(_column(name) for name in values)
    letters = "".join(_letter(name, value) for name, value in values.items())
    return encode_single(body, names, letters, [*values.values()])


def batch(*rows: Row) -> Payload:
    """Messages that came together; each has the headers and properties it names, and no others."""
    names = [*dict.fromkeys(name for _, values in rows for name in values)]
    columns = {}
    for name in names:
        letter = next(_letter(name, values[name]) for _, values in rows if name in values)
        columns[_column(name)] = pa.array([values.get(name) for _, values in rows], _ARROW[letter])
    return encode_columns(pa.array([body for body, _ in rows], pa.binary()), columns)


def alike(bodies: Iterable[bytes], **values: Value) -> Payload:
    """A batch of messages that have the same headers and properties."""
    return batch(*((body, values) for body in bodies))


def values_of(payload: Payload, name: str) -> list[Value | None]:
    """A header or property of each message."""
    found = column(payload, _column(name))
    return [None] * payload.rows if found is None else found.to_pylist()


def bodies_of(spans: Iterable[Span]) -> list[bytes]:
    """Of all their messages, in order."""
    return [body for span in spans for body in decode(span.encoded()).tolist()]


class Bodies:
    """The same for those who ask again and again: each payload is decoded once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, list[bytes]]] = {}

    def of(self, spans: Iterable[Span]) -> list[bytes]:
        return [body for span in spans for body in self._rows(span)]

    def _rows(self, span: Span) -> list[bytes]:
        payload = span.payload
        if id(payload) not in self._known:
            self._known[id(payload)] = payload, decode(span.whole()).tolist()
        bodies = self._known[id(payload)][1]
        return [bodies[row] for row in span.index]


def _column(name: str) -> str:
    return name if name in HEADERS else PROPERTY + name


def _letter(name: str, value: Value) -> str:
    if name in HEADERS:
        return HEADERS[name]
    return {bool: "?", int: "q", float: "d", str: "s"}[type(value)]
