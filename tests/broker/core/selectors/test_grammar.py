"""Each rule of the grammar, its precedence, and what is said to a text that breaks it."""

import pytest

from mqlab.broker.core.selectors import BadSelectorError, compile_selector

from .selector_outcomes import outcome, selected

NUMBERS = [1, 2, 3, None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 2", "FTFU"), ("x <> 2", "TFTU"), ("x < 2", "TFFU"), ("x <= 2", "TTFU"), ("x > 2", "FFTU"),
        ("x >= 2", "FTTU"),
    ],
)  # fmt: skip
def test_comparisons_of_numbers(text: str, expected: str) -> None:
    assert outcome(text, x=NUMBERS) == expected
    sign = text.split()[1]
    turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(sign, sign)
    assert outcome(f"2 {turned} x", x=NUMBERS) == expected


def test_comparisons_of_two_properties() -> None:
    assert outcome("x < y", x=[1, 2, None, 1], y=[2.5, 2, 1, None]) == "TFUU"
    assert outcome("x = y", x=["a", "a", None], y=["a", "b", "a"]) == "TFU"
    assert outcome("x <> y", x=[True, True, None], y=[True, False, True]) == "FTU"


def test_comparisons_of_strings_and_booleans() -> None:
    assert outcome("x = 'a'", x=["a", "b", None]) == "TFU"
    assert outcome("'a' <> x", x=["a", "b", None]) == "FTU"
    assert outcome("x = TRUE", x=[True, False, None]) == "TFU"
    assert outcome("x <> FALSE", x=[True, False, None]) == "TFU"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x BETWEEN 2 AND 3", "FTTU"), ("x NOT BETWEEN 2 AND 3", "TFFU"), ("x BETWEEN 3 AND 2", "FFFU"),
        ("x + 1 BETWEEN 1 + 1 AND 6 / 2", "TTFU"), ("x BETWEEN 2 AND y", "FUFU"), ("x NOT BETWEEN 2 AND y", "TUTU"),
    ],
)  # fmt: skip
def test_between(text: str, expected: str) -> None:
    assert outcome(text, x=NUMBERS, y=[9, None, 2, 9]) == expected


def test_between_takes_its_own_and() -> None:
    assert outcome("x BETWEEN 1 AND 2 AND y = 1 OR x = 3", x=NUMBERS, y=[1, 2, 1, 1]) == "TFTU"


def test_in() -> None:
    countries = ["UK", "Peru", None, ""]
    assert outcome("x IN ('UK', 'US', 'France')", x=countries) == "TFUF"
    assert outcome("x NOT IN ('UK', 'US', 'France')", x=countries) == "FTUT"
    assert outcome("x IN('')", x=countries) == "FFUT"
    assert outcome("(x) IN ('UK','UK')", x=countries) == "TFUF"


def test_is_null() -> None:
    assert outcome("x IS NULL", x=[1, None]) == "FT"
    assert outcome("x IS NOT NULL", x=[1, None]) == "TF"
    assert outcome("missing IS NULL AND x = 1", x=[1, 2]) == "TF"
    assert outcome("missing IS NOT NULL", x=[1, 2]) == "FF"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 3 * 4", 14), ("(2 + 3) * 4", 20), ("10 - 4 - 3", 3), ("10 - (4 - 3)", 9), ("100 / 5 / 2", 10),
        ("100 / (5 / 2)", 50), ("2 * 7 / 4", 3), ("7 / 4 * 2", 2), ("-2 - -3", 1), ("- (2 + 3)", -5), ("1+2*3-4/2", 5),
        ("+(4)", 4), ("-2 * -3", 6), ("2-1", 1),
    ],
)  # fmt: skip
def test_precedence_of_arithmetic(text: str, value: int) -> None:
    assert selected(f"{text} = x", x=[value, value + 1]) == [True, False]
    with_property = text.replace("2", "two")
    assert selected(f"{with_property} = x", x=[value, value + 1], two=[2, 2]) == [True, False]


def test_precedence_of_logic() -> None:
    """NOT binds closer than AND, AND closer than OR; all outcomes of three flags."""
    rows = [(a, b, c) for a in (True, False) for b in (True, False) for c in (True, False)]
    columns = {name: [row[at] for row in rows] for at, name in enumerate("abc")}
    assert selected("a OR b AND c", **columns) == [a or (b and c) for a, b, c in rows]
    assert selected("(a OR b) AND c", **columns) == [(a or b) and c for a, b, c in rows]
    assert selected("NOT a AND b OR c", **columns) == [((not a) and b) or c for a, b, c in rows]
    assert selected("NOT (a AND b OR c)", **columns) == [not ((a and b) or c) for a, b, c in rows]
    assert selected("NOT a = b", **columns) == [a != b for a, b, c in rows]
    assert selected("NOT NOT NOT a OR NOT NOT b", **columns) == [(not a) or b for a, b, c in rows]


def test_a_condition_is_a_value() -> None:
    columns = {"x": [1, 2, 3, None], "flag": [True, False, None, True]}
    assert outcome("(x > 1) = TRUE", **columns) == "FTTU"
    assert outcome("(x > 1) <> (x > 2)", **columns) == "FTFU"
    assert outcome("(x = 1) = flag", **columns) == "TTUU"
    assert outcome("((x = 1 AND flag) = TRUE) = FALSE", **columns) == "FTTU"


def test_a_property_that_stands_alone_is_a_condition() -> None:
    assert outcome("urgent", urgent=[True, False, None]) == "TFU"
    assert outcome("NOT urgent AND TRUE", urgent=[True, False, None]) == "FTU"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x =", "character 4: expected a name, a number, a string or '(', found the end"),
        ("= 1", "character 1: expected a name, a number, a string or '(', found '='"),
        ("x == 1", "character 4: expected a name, a number, a string or '(', found '='"),
        ("x != 1", "character 3: unexpected '!': not equal is written <>"),
        ('x = "a"', "character 5: unexpected '\"': a string stands in single quotes"),
        ("x = 'a", "character 5: a string begins here and is never closed with a single quote"),
        ("x = 1 y = 2", "character 7: expected an operator or the end, found 'y'"),
        ("x = 1 = 1", "character 7: expected an operator or the end, found '='"),
        ("1 < x < 3", "character 7: expected an operator or the end, found '<'"),
        ("x = 1)", "character 6: expected an operator or the end, found ')'"),
        ("((x = 1)", "character 9: expected ')' for the '(' at character 1, found the end"),
        ("()", "character 2: expected a name, a number, a string or '(', found ')'"),
        ("x = NULL", "character 5: expected a name, a number, a string or '(', found 'NULL'; "
                     "a missing property is found with IS NULL"),
        ("x IS 1", "character 6: expected NULL, found '1'"),
        ("x IS NOT", "character 9: expected NULL, found the end"),
        ("x NOT = 1", "character 7: expected BETWEEN, IN or LIKE after NOT, found '='"),
        ("x NOT NULL", "character 7: expected BETWEEN, IN or LIKE after NOT, found 'NULL'"),
        ("x BETWEEN 1", "character 12: expected AND, found the end"),
        ("x BETWEEN 1 OR 2", "character 13: expected AND, found 'OR'"),
        ("x IN 'a'", "character 6: expected '(' and a list of strings, found \"'a'\""),
        ("x IN ()", "character 7: expected a string, found ')'"),
        ("x IN ('a' 'b')", "character 11: expected ',' or ')', found \"'b'\""),
        ("x IN ('a',)", "character 11: expected a string, found ')'"),
        ("x IN (1, 2)", "character 7: expected a string, found '1'"),
        ("x IN (y)", "character 7: expected a string, found 'y'"),
        ("'a' IN ('a')", "character 1: IN takes the name of a property on its left"),
        ("1 LIKE 'a'", "character 1: LIKE takes the name of a property on its left"),
        ("'a' LIKE 'a'", "character 1: LIKE takes the name of a property on its left"),
        ("x + 1 IS NULL", "character 1: IS NULL takes the name of a property on its left"),
        ("x LIKE y", "character 8: expected a pattern in single quotes, found 'y'"),
        ("x LIKE 5", "character 8: expected a pattern in single quotes, found '5'"),
        ("x LIKE 'a' ESCAPE", "character 18: expected an escape character in single quotes, found the end"),
        ("x LIKE 'a' ESCAPE 'ab'", "character 19: ESCAPE takes one character, not 2"),
        ("x LIKE 'a' ESCAPE ''", "character 19: ESCAPE takes one character, not 0"),
        ("x AND", "character 6: expected a name, a number, a string or '(', found the end"),
        ("AND x", "character 1: expected a name, a number, a string or '(', found 'AND'"),
        ("NOT", "character 4: expected a name, a number, a string or '(', found the end"),
        ("x = a.b", "character 6: unexpected '.'"),
        ("x = 1; y = 2", "character 6: unexpected ';'"),
        ("x = 1 -- no comment", "character 13: expected an operator or the end, found 'comment'"),
        ("x = 1 /* y */", "character 8: expected a name, a number, a string or '(', found '*'"),
        ("x % 2 = 1", "character 3: unexpected '%'"),
        ("x = ?", "character 5: unexpected '?'"),
    ],
)  # fmt: skip
def test_errors_say_where_and_what(text: str, said: str) -> None:
    with pytest.raises(BadSelectorError) as error:
        compile_selector(text)
    assert str(error.value) == f"the selector is wrong at {said}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("'a' + 1 = 2", "character 1: + calculates with numbers, and this is a string"),
        ("x + 'a' = 2", "character 5: + calculates with numbers, and this is a string"),
        ("x * TRUE = 1", "character 5: * calculates with numbers, and this is a boolean"),
        ("(x = 1) - 1 = 2", "character 1: - calculates with numbers, and this is a boolean"),
        ("-'a' = 1", "character 2: a sign stands before a number, and this is a string"),
        ("-(x > 1) = 1", "character 2: a sign stands before a number, and this is a boolean"),
        ("TRUE > 1", "character 1: > compares numbers, and this is a boolean"),
        ("1 > TRUE", "character 5: > compares numbers, and this is a boolean"),
        ("x <= 'a'", "character 6: <= compares numbers, and this is a string"),
        ("x BETWEEN 'a' AND 'b'", "character 11: BETWEEN compares numbers, and this is a string"),
        ("x BETWEEN 1 AND 'b'", "character 17: BETWEEN compares numbers, and this is a string"),
        ("'a' BETWEEN 1 AND 2", "character 1: BETWEEN compares numbers, and this is a string"),
        ("1 = 'a'", "character 3: = compares values of one type, not a number with a string"),
        ("x + 1 <> 'a'", "character 7: <> compares values of one type, not a number with a string"),
        ("TRUE = 1", "character 6: = compares values of one type, not a boolean with a number"),
        ("(x = 1) = 'a'", "character 9: = compares values of one type, not a boolean with a string"),
        ("1 AND 2", "character 1: AND joins conditions, and this is a number"),
        ("x = 1 AND 'a'", "character 11: AND joins conditions, and this is a string"),
        ("x OR 2", "character 6: OR joins conditions, and this is a number"),
        ("NOT 1", "character 5: NOT stands before a condition, and this is a number"),
        ("NOT 'a'", "character 5: NOT stands before a condition, and this is a string"),
        ("1", "character 1: a selector is a condition, and this is a number"),
        ("'a'", "character 1: a selector is a condition, and this is a string"),
        ("x + 1", "character 1: a selector is a condition, and this is a number"),
        ("-x", "character 1: a selector is a condition, and this is a number"),
    ],
)  # fmt: skip
def test_a_type_error_in_the_text_itself_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadSelectorError) as error:
        compile_selector(text)
    assert str(error.value) == f"the selector is wrong at {said}"


@pytest.mark.parametrize("text", ["", " ", " \t\r\n\f"])
def test_nothing_is_no_selector(text: str) -> None:
    with pytest.raises(BadSelectorError, match="a selector must not be empty"):
        compile_selector(text)


def test_a_long_piece_of_the_text_is_not_repeated_and_never_breaks_the_line() -> None:
    with pytest.raises(BadSelectorError) as error:
        compile_selector("x = 1 '" + "a\n" * 1000 + "'")
    assert len(str(error.value)) < 150
    assert "\n" not in str(error.value)
