"""Many lone messages as one batch: what lies somewhere for long should not cost the memory of a message each."""

from collections.abc import Sequence

import pyarrow as pa

from mqlab.wire.columns import columns_of, encode_columns, values_of
from mqlab.wire.payload import BINARY, Payload


def join_lone(payloads: Sequence[Payload]) -> Payload:
    """Lone messages with the same `columns_of`, in their order."""
    listed = columns_of(payloads[0])
    if listed is None:
        return encode_columns(pa.array([bytes(payload.data) for payload in payloads], BINARY), {})
    bodies, rows = [], []
    for payload in payloads:
        values, begin = values_of(payload.data, listed)
        rows.append(values)
        bodies.append(bytes(payload.data[begin:]))
    types = [field.type for field in listed.schema][1:]
    arrays = map(pa.array, zip(*rows, strict=True), types)
    return encode_columns(pa.array(bodies, BINARY), dict(zip(listed.names, arrays, strict=True)))
