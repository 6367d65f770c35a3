"""Encodes thousands of frames of one size at once, as a matrix with a row for each frame."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

Matrix = np.ndarray[tuple[int, int], np.dtype[np.uint8]]
Integers = np.ndarray[tuple[int], np.dtype[np.integer]]
# Integers, or bytes: texts as they are written, with escapes. Any: numpy has no type for either of two.
Column = np.ndarray[tuple[int], np.dtype[Any]]


def paste(rows: int, parts: "Sequence[bytes | Matrix]") -> bytes:
    """Rows of these parts, joined: every row has the same `bytes`, and its own row of a matrix."""
    width = sum(len(part) if isinstance(part, bytes) else part.shape[1] for part in parts)
    whole = np.empty((rows, width), dtype=np.uint8)
    begin = 0
    for part in parts:
        columns = np.frombuffer(part, dtype=np.uint8) if isinstance(part, bytes) else part
        end = begin + columns.shape[-1]
        whole[:, begin:end] = columns
        begin = end
    return whole.tobytes()


def equal_widths(*columns: Column) -> Iterator[tuple[int, int]]:
    """Begin and end of each run of rows in which each column has numbers of one width and one sign, or texts of one
    length."""
    widths = np.stack([_widths_and_signs(values) for values in columns])
    breaks = np.flatnonzero((widths[:, 1:] != widths[:, :-1]).any(axis=0)) + 1
    return pairwise((0, *breaks.tolist(), widths.shape[1]))


def written(values: Column) -> Matrix:
    """Integers of one width and one sign, or texts of one length, as rows of bytes."""
    if values.dtype.kind != "S":
        return decimals(values)
    width = len(values[0])
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)[:, :width]


def decimals(values: Integers) -> Matrix:
    """Integers of one width and one sign as text: a row for each."""
    magnitude = np.abs(values.astype(np.int64))
    digits = len(str(int(magnitude[0])))
    powers = 10 ** np.arange(digits - 1, -1, -1, dtype=np.int64)
    text = (magnitude[:, None] // powers % 10 + ord("0")).astype(np.uint8)
    if values[0] >= 0:
        return text
    return np.concatenate((np.full((len(values), 1), ord("-"), dtype=np.uint8), text), axis=1)


def _widths_and_signs(values: Column) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if values.dtype.kind == "S":
        lengths: np.ndarray[tuple[int], np.dtype[np.int64]] = np.strings.str_len(values)
        return lengths
    steps = 10 ** np.arange(1, 19, dtype=np.int64)
    return np.searchsorted(steps, np.abs(values.astype(np.int64)), side="right") + (len(steps) + 1) * (values < 0)
