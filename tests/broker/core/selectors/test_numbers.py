"""Calculation as Java does it, and nothing that ever stops a batch."""

from math import inf, nan

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .selector_outcomes import outcome, selected

LEAST, MOST = -(2**63), 2**63 - 1
longs = st.one_of(st.integers(LEAST, MOST), st.integers(-9, 9), st.sampled_from([LEAST, LEAST + 1, MOST, MOST - 1]))


def wrapped(value: int) -> int:
    """The long that Java keeps of it."""
    return (value - LEAST) % 2**64 + LEAST


def java(operator: str, one: int, other: int) -> int | None:
    match operator:
        case "+":
            return wrapped(one + other)
        case "-":
            return wrapped(one - other)
        case "*":
            return wrapped(one * other)
    if other == 0:
        return None
    quotient = abs(one) // abs(other)
    return wrapped(quotient if (one < 0) == (other < 0) else -quotient)


@settings(deadline=None)
@given(st.lists(st.tuples(longs, longs), min_size=1, max_size=20), st.sampled_from("+-*/"))
def test_arithmetic_of_longs_is_that_of_java(pairs: list[tuple[int, int]], operator: str) -> None:
    results = [java(operator, one, other) for one, other in pairs]
    columns = {
        "x": pa.array([one for one, _ in pairs], pa.int64()),
        "y": pa.array([other for _, other in pairs], pa.int64()),
        "z": pa.array([result or 0 for result in results], pa.int64()),
    }
    expected = "".join("U" if result is None else "T" for result in results)
    assert outcome(f"x {operator} y = z", **columns) == expected
    one, other = pairs[0]
    assert outcome(f"{one} {operator} y = z", **columns)[0] == expected[0]
    assert outcome(f"x {operator} {other} = z", **columns)[0] == expected[0]
    assert outcome(f"{one} {operator} {other} = z", **columns)[0] == expected[0]


@settings(deadline=None)
@given(st.lists(longs, min_size=1, max_size=5))
def test_a_chain_of_literals_is_calculated_as_properties_are(values: list[int]) -> None:
    columns = {f"x{at}": pa.array([value], pa.int64()) for at, value in enumerate(values)}
    for operator in "+-*/":
        literals = f" {operator} ".join(map(str, values))
        properties = f" {operator} ".join(columns)
        assert outcome(f"{properties} = {literals}", **columns) in ("T", "U")
        assert outcome(f"{literals} = {literals}") == outcome(f"{properties} = {properties}", **columns)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x + 1 = -9223372036854775808", "FFT"), ("x - 1 = 9223372036854775807", "TFF"), ("-x = x", "TFF"),
        ("x * -1 = x", "TFF"), ("x / -1 = x", "TFF"), ("9223372036854775807 + 1 < 0", "TTT"), ("x * 2 = -2", "FFT"),
        ("-9223372036854775808 / -1 = -9223372036854775808", "TTT"), ("- -9223372036854775808 < 0", "TTT"),
    ],
)  # fmt: skip
def test_a_long_wraps_around(text: str, expected: str) -> None:
    assert outcome(text, x=pa.array([LEAST, 7, MOST], pa.int64())) == expected


def test_small_integers_are_calculated_as_longs() -> None:
    assert selected("x + 1 = 128", x=pa.array([127], pa.int8())) == [True]
    assert selected("-x = 128", x=pa.array([-128], pa.int8())) == [True]
    assert selected("x * x = 4611686014132420609", x=pa.array([2**31 - 1], pa.int32())) == [True]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("7 / 2 = 3", "T"), ("-7 / 2 = -3", "T"), ("7 / -2 = -3", "T"), ("-7 / -2 = 3", "T"), ("7 / 2. = 3.5", "T")],
)
def test_division_of_longs_drops_the_remainder(text: str, expected: str) -> None:
    assert outcome(text) == expected
    assert outcome(text.replace("7", "x"), x=[7]) == expected


def test_division_of_a_long_by_zero_is_unknown() -> None:
    assert outcome("x / y = 2", x=[4, 4, None, 4], y=[2, 0, 0, None]) == "TUUU"
    assert outcome("x / 0 = 2", x=[4, 0]) == "UU"
    assert outcome("4 / x = 2", x=[2, 0]) == "TU"
    assert outcome("1 / 0 = 1") == "U"
    assert outcome("x + 1 / 0 * 2 = 1", x=[1]) == "U"
    assert outcome("-(1 / 0) = 1 OR x = 1", x=[1, 2]) == "TU"


def test_division_of_a_double_by_zero_is_that_of_ieee_754() -> None:
    columns = {"x": [1.0, -1.0, 0.0], "zero": [0, 0, 0]}
    assert outcome("x / zero > 1e308", **columns) == "TFF"
    assert outcome("x / zero < -1e308", **columns) == "FTF"
    assert outcome("x / zero = x / zero", **columns) == "TTF"
    assert outcome("1 / 0. > 1E308 AND 1. / -0. < 0") == "T"


def test_not_a_number_is_unequal_to_everything_and_in_no_order() -> None:
    column = pa.array([nan, inf, 1.0, None], from_pandas=False)
    assert outcome("x = x", x=column) == "FTTU"
    assert outcome("x <> x", x=column) == "TFFU"
    assert outcome("x > 0 OR x < 0 OR x = 0", x=column) == "FTTU"
    assert outcome("x BETWEEN 0 AND 9", x=column) == "FFTU"
    assert outcome("x NOT BETWEEN 0 AND 9", x=column) == "FTFU"
    assert outcome("x IS NULL", x=column) == "FFFT"


def test_a_double_overflows_to_infinity_without_a_word() -> None:
    column = pa.array([1e308, -1e308, 1.0])
    assert outcome("x * 10 > 1.7e308", x=column) == "TFF"
    assert outcome("x * 10 - x * 10 = 0", x=column) == "FFT"
    assert outcome("1e308 * 10 = 1e308 * 100") == "T"


def test_a_signalling_nan_is_no_signal() -> None:
    singles = pa.Array.from_buffers(pa.float32(), 2, [None, pa.py_buffer(np.array([0x7F800001, 0], np.uint32))])
    doubles = pa.Array.from_buffers(pa.float64(), 2, [None, pa.py_buffer(np.array([0x7FF0000000000001, 0], np.uint64))])
    assert outcome("x = 0 AND x + 1 = 1 AND x < y + 1 AND -y = 0", x=singles, y=doubles) == "FT"


def test_negative_zero_is_zero() -> None:
    assert outcome("x = 0 AND x = -0.0 AND -x = 0", x=[-0.0, 0.0]) == "TT"
