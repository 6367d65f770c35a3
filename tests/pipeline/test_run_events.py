"""Numbers for groups of rows: the same whether their values lie close together or far apart."""

import numpy as np
import pytest

from mqlab.pipeline.kernels.run_events import Array, distinct, highest_before, keys

CLOSE = np.array([3, -2, 3, 7, -2, 0])
FAR = np.array([-(2**62), 5, 2**62, 5, -(2**62), 0])


@pytest.mark.parametrize("column", [CLOSE, FAR, CLOSE[:0]], ids=["close", "far", "none"])
def test_values_and_their_places(column: Array) -> None:
    values, place = distinct(column)
    assert values.tolist() == sorted({*column.tolist()})
    assert values[place].tolist() == column.tolist()


@pytest.mark.parametrize("columns", [[CLOSE, FAR], [FAR, CLOSE], [CLOSE, CLOSE[::-1]], [FAR]])
def test_keys_are_ordered_as_the_rows_are(columns: list[Array]) -> None:
    rows = [*zip(*(column.tolist() for column in columns), strict=True)]
    ordered = sorted({*rows})
    assert keys(columns).tolist() == [ordered.index(row) for row in rows]


@pytest.mark.parametrize("scale", [1, 2**60], ids=["close", "far"])
def test_the_highest_before_each_row_of_its_group(scale: int) -> None:
    group, values = np.array([0, 0, 0, 2, 2, 7]), np.array([2, -3, 1, -4, 3, 2])
    found = highest_before(group, values * scale, np.full(6, 99))
    assert found.tolist() == [99, 2 * scale, 2 * scale, 99, -4 * scale, 99]
