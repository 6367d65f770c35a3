"""Evaluation of selectors: the columns that they read of a payload, and the rows that they choose."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from mqlab.broker import limits
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.routing.ordering import DEFAULT_PRIORITY
from mqlab.broker.core.selectors import Selector
from mqlab.wire.native.columns import PROPERTY, decode_batch, decode_single
from mqlab.wire.native.payload import SINGLE, Payload, RowFlags


def as_text(message_id: bytes) -> str:
    """A message id as users and selectors see it."""
    return "ID:" + message_id.hex()


# The column of each header that a selector can name.
_FIELDS: Final[Mapping[str, str]] = {
    "JMSMessageID": "id", "JMSTimestamp": "timestamp", "JMSCorrelationID": "correlation_id", "JMSType": "type",
    "JMSPriority": "priority", "JMSXGroupID": "group",
}  # fmt: skip


def _as_texts(ids: pa.Array) -> pa.Array:
    return pa.array([None if value is None else as_text(value) for value in ids.to_pylist()], pa.string())


_CONVERSIONS: Final[Mapping[str, Callable[[pa.Array], pa.Array]]] = {
    "JMSMessageID": _as_texts,
    "JMSPriority": lambda priorities: priorities.fill_null(DEFAULT_PRIORITY),
}


def weight_of(selector: Selector) -> int:
    """How many short selectors cost as much: the time for a message grows with the text."""
    return 1 + len(selector.text) // limits.SELECTOR_PART


def check_selectors(selector: Selector, beside: Iterable[Selector | None]) -> None:
    """Raises CommandError if the consumers of a queue, with selectors `beside`, have too many for another one."""
    if weight_of(selector) + sum(weight_of(other) for other in beside if other is not None) > limits.SELECTORS_A_QUEUE:
        raise CommandError(
            f"the consumers of a queue have at most {limits.SELECTORS_A_QUEUE} selectors; "
            f"one counts again for each {limits.SELECTOR_PART} characters"
        )


def chosen(selector: Selector, span: Span) -> RowFlags:
    """A flag for each message of the span."""
    flags: RowFlags = chosen_of(selector, span.whole(), persistent=span.persistent)[np.asarray(span.index)]
    return flags


def chosen_of(selector: Selector, payload: Payload, *, persistent: bool) -> RowFlags:
    """A flag for each message of a payload."""
    batch = decode_batch(payload)
    columns = _columns(selector.identifiers, batch.schema.names, batch.column, batch.num_rows, persistent)
    return selector.mask(batch.num_rows, columns)


def chosen_of_singles(selector: Selector, spans: list[Span]) -> RowFlags:
    """A flag for each of many single messages: those with the same columns are evaluated together."""
    alike: dict[tuple[object, bool], list[int]] = {}
    read = [decode_single(span.whole()).values for span in spans]
    for at, (span, values) in enumerate(zip(spans, read, strict=True)):
        kinds = tuple((name, type(value)) for name, value in values.items())
        alike.setdefault((kinds, span.persistent), []).append(at)
    flags = np.zeros(len(spans), dtype=bool)
    for (_, persistent), rows in alike.items():
        names = read[rows[0]].keys()
        columns = _columns(
            selector.identifiers, names, lambda name, rows=rows: pa.array([read[at][name] for at in rows]),  # type: ignore[misc]
            len(rows), persistent,
        )  # fmt: skip
        flags[rows] = selector.mask(len(rows), columns)
    return flags


def is_single(span: Span) -> bool:
    return isinstance(span.payload, Payload) and bool(span.payload.form & SINGLE)


def _columns(
    identifiers: Iterable[str], names: Iterable[str], column: Callable[[str], pa.Array], rows: int, persistent: bool
) -> Mapping[str, pa.Array]:
    columns: dict[str, pa.Array] = {}
    for identifier in identifiers:
        name = _FIELDS.get(identifier, PROPERTY + identifier)
        if name in names:
            array = column(name)
            convert = _CONVERSIONS.get(identifier)
            columns[identifier] = convert(array) if convert else array
        elif identifier == "JMSPriority":
            columns[identifier] = pa.array(np.full(rows, DEFAULT_PRIORITY, dtype=np.int8))
        elif identifier == "JMSDeliveryMode":
            columns[identifier] = pa.array([_mode(persistent)] * rows)
    return columns


def _mode(persistent: bool) -> str:
    return "PERSISTENT" if persistent else "NON_PERSISTENT"
