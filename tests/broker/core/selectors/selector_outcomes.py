"""Evaluates a selector over columns that a test writes as lists; the outcome is three-valued."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from mqlab.broker.core.selectors import compile_selector

Columns = Mapping[str, pa.Array]


def selected(text: str, rows: int = 1, /, **columns: pa.Array | Sequence[object]) -> list[bool]:
    """The mask, of columns that are Arrow arrays, or lists where Arrow finds the type."""
    arrays = {name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()}
    count = len(next(iter(arrays.values()))) if arrays else rows
    mask = compile_selector(text).mask(count, arrays)
    assert mask.dtype == bool
    assert mask.shape == (count,)
    return [bool(one) for one in mask]


def outcome(text: str, rows: int = 1, /, **columns: pa.Array | Sequence[object]) -> str:
    """A letter for each row: T, F, or U for UNKNOWN, which neither the selector nor its opposite selects."""
    true = selected(text, rows, **columns)
    false = selected(f"NOT ({text})", rows, **columns)
    assert not any(one and other for one, other in zip(true, false, strict=True)), text
    return "".join("T" if yes else "F" if no else "U" for yes, no in zip(true, false, strict=True))
