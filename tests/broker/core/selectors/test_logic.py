"""Three-valued logic: the tables of the specification, one by one."""

import pytest

from .selector_outcomes import outcome

# Rows run over all pairs of TRUE, FALSE and UNKNOWN.
VALUES = {"T": True, "F": False, "U": None}
PAIRS = [(one, other) for one in "TFU" for other in "TFU"]
FLAGS = {
    "a": [VALUES[one] for one, _ in PAIRS],
    "b": [VALUES[other] for _, other in PAIRS],
    # The same as comparisons, so that UNKNOWN comes from a missing number.
    "x": [{"T": 1, "F": 0, "U": None}[one] for one, _ in PAIRS],
    "y": [{"T": 1, "F": 0, "U": None}[other] for _, other in PAIRS],
}
AND = "TFUFFFUFU"
OR = "TTTTFUTUU"
EQUAL = "TFUFTUUUU"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a AND b", AND), ("x = 1 AND y = 1", AND), ("a AND y = 1", AND), ("NOT (NOT a OR NOT b)", AND),
        ("a OR b", OR), ("x = 1 OR y = 1", OR), ("NOT (NOT a AND NOT b)", OR), ("NOT (x <> 1 AND y <> 1)", OR),
        ("a = b", EQUAL), ("(x = 1) = (y = 1)", EQUAL), ("(a AND a) = (b OR b)", EQUAL), ("NOT (a <> b)", EQUAL),
        ("(NOT a) = (NOT b)", EQUAL), ("a = (y = 1)", EQUAL),
    ],
)  # fmt: skip
def test_tables(text: str, expected: str) -> None:
    assert outcome(text, **FLAGS) == expected


def test_not() -> None:
    assert outcome("NOT a", a=[True, False, None]) == "FTU"
    assert outcome("NOT x = 1", x=[1, 0, None]) == "FTU"


def test_a_property_that_no_message_has_is_unknown_wherever_it_stands() -> None:
    columns = {"x": [1, 2]}
    for text in (
        "no = 1", "no <> 1", "no > x", "no + 1 = 2", "x + no = 2", "-no = 1", "no LIKE '%'", "no NOT LIKE 'a'",
        "no IN ('a')", "no NOT IN ('a')", "no BETWEEN 1 AND 2", "no NOT BETWEEN 1 AND 2", "no", "NOT no", "no = no",
        "no = TRUE", "(no) = (x = 1)",
    ):  # fmt: skip
        assert outcome(text, **columns) == "UU", text


def test_unknown_does_not_stand_in_the_way_of_what_is_known() -> None:
    assert outcome("no = 1 AND x = 2", x=[1, 2]) == "FU"
    assert outcome("no = 1 OR x = 2", x=[1, 2]) == "UT"


def test_many_terms_are_joined_as_two_are() -> None:
    given = ("TTTT", "TTTU", "UTTF", "UUUU", "FFFF", "UFFF", "FFFT")
    rows = [[VALUES[letter] for letter in letters] for letters in given]
    columns = {name: [row[at] for row in rows] for at, name in enumerate("abcd")}
    assert outcome("a AND b AND c AND d", **columns) == "TUFUFFF"
    assert outcome("a OR b OR c OR d", **columns) == "TTTUFUT"
    assert outcome("(a AND b) AND (c AND d)", **columns) == "TUFUFFF"
    assert outcome("((a OR b) OR c) OR d", **columns) == "TTTUFUT"
