"""Texts that a selector takes for numbers, if it says so."""

import pyarrow as pa
import pytest

from mqlab.broker.core.selectors import BadSelectorError, compile_selector

from .selector_outcomes import selected

CONVERT = "convert_string_expressions:"


def true(text: str, values: list[str | None]) -> str:
    return "".join("T" if one else "-" for one in selected(text, x=pa.array(values, pa.string())))


def test_only_where_it_is_wanted() -> None:
    assert true("x > 5", ["6", "4"]) == "--"
    assert true(f"{CONVERT}x > 5", ["6", "4"]) == "T-"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x > 5", "T--T---"), ("x + 1 > 6", "T--T---"), ("-x < -5", "T--T---"), ("5 < x", "T--T---"),
        ("x BETWEEN 6 AND 7", "T--T---"), ("x = 6", "T------"), ("x <> 6", "-T-T---"), ("x IS NOT NULL", "TTTTT-T"),
        ("x = '6'", "T------"), ("x IN ('6', 'y')", "T-T----"), ("x LIKE '6%'", "T--T---"),
    ],
)  # fmt: skip
def test_the_number_that_is_spelled(text: str, found: str) -> None:
    assert true(CONVERT + text, ["6", "-1e3", "y", "6.5", "", None, " 6"]) == found


def test_whole_numbers_stay_exact() -> None:
    assert true(f"{CONVERT}x = 900719925474099267", ["900719925474099267", "900719925474099266", None]) == "T--"


def test_what_is_used_as_a_text_too_stays_one() -> None:
    assert true(f"{CONVERT}x = '6' OR x > 5", ["6", "7"]) == "T-"


def test_numbers_out_of_range_are_infinite() -> None:
    assert true(f"{CONVERT}x > 5", ["1e999", "9" * 400, "-1e999", "nan", "inf"]) == "TT---"


def test_other_types_are_as_they_are() -> None:
    assert selected(f"{CONVERT}x > 5 AND y", x=[6, 7], y=[True, False]) == [True, False]
    assert selected(f"{CONVERT}x > 5") == [False]


@pytest.mark.parametrize("text", ["", "  ", "x = = 1"])
def test_the_rest_must_be_a_selector(text: str) -> None:
    with pytest.raises(BadSelectorError):
        compile_selector(CONVERT + text)
