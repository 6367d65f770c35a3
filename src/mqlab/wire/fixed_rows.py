"""Consecutive frames of one length, as the rows of a table."""

from collections.abc import Sequence

import numpy as np

Table = np.ndarray[tuple[int, int], np.dtype[np.uint8]]


def as_table(buffer: bytes, at: int, rows: int, length: int) -> Table:
    """A view of the buffer, without a copy."""
    return np.frombuffer(buffer, np.uint8, rows * length, at).reshape(rows, length)


def count_equal_rows(table: Table, parts: Sequence[tuple[int, int]]) -> int:
    """How many rows from the first on have its bytes in all these parts (begin, end)."""
    # Usually all rows are equal. To check that costs a fraction of a search for the first row that differs.
    if all(_all_equal(table[:, begin:end]) for begin, end in parts):
        return len(table)
    equal = np.ones(len(table), dtype=bool)
    for begin, end in parts:
        equal &= (table[:, begin:end] == table[0, begin:end]).all(axis=1)
    return int(equal.argmin())


def _all_equal(table: Table) -> bool:
    return table.tobytes() == table[:1].tobytes() * len(table)
