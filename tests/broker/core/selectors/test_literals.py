"""Literals and names: numbers as Java writes them, strings, white space."""

import pyarrow as pa
import pytest

from mqlab.broker.core.selectors import BadSelectorError, compile_selector

from .selector_outcomes import outcome, selected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("57", 57), ("-957", -957), ("+62", 62), ("57L", 57), ("57l", 57), ("1_000_000", 1_000_000),
        ("0x1F", 31), ("0X1f", 31), ("0xFFFFFFFF", 2**32 - 1), ("0xffff_ffffL", 2**32 - 1),
        ("017", 15), ("0_17", 15), ("00", 0), ("0b101", 5), ("0B1_0", 2),
        ("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63)), ("-9223372036854775808L", -(2**63)),
        ("0x7fffffffffffffff", 2**63 - 1), ("0xFFFFFFFFFFFFFFFF", -1), ("-0xFFFFFFFFFFFFFFFF", 1),
        ("0x8000000000000000", -(2**63)), ("01777777777777777777777", -1), ("- -5", 5), ("- + -5", 5), ("+-5", -5),
        ("- -9223372036854775808", -(2**63)),
    ],
)  # fmt: skip
def test_exact_numbers(text: str, value: int) -> None:
    column = pa.array([value, value ^ 1], pa.int64())
    assert selected(f"x = {text}", x=column) == [True, False]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7.", 7.0), ("-95.7", -95.7), ("+6.2", 6.2), ("7E3", 7000.0), ("-57.9E2", -5790.0), (".5", 0.5),
        ("1e-3", 0.001),
        ("1.e2", 100.0), ("5d", 5.0), ("5D", 5.0), ("1_0.2_5", 10.25), ("09.5", 9.5), ("08e0", 8.0), ("0x1p3", 8.0),
        ("0x1.8p1", 3.0), ("0X.8P0", 0.5), ("0x1.p-1D", 0.5), ("1.7976931348623157e308", 1.7976931348623157e308),
        ("4.9e-324", 5e-324), ("0e999", 0.0), ("0.0f", 0.0), ("0x0p9999", 0.0), ("2.5f", 2.5),
    ],
)  # fmt: skip
def test_approximate_numbers(text: str, value: float) -> None:
    column = pa.array([value, value + abs(value) + 1], pa.float64())
    assert selected(f"x = {text}", x=column) == [True, False]


def test_a_float_literal_has_the_precision_of_a_float() -> None:
    assert selected("x = 0.1f", x=pa.array([0.1], pa.float32())) == [True]
    assert selected("x = 0.1", x=pa.array([0.1], pa.float32())) == [False]
    assert selected("x = 0.1f", x=pa.array([0.1], pa.float64())) == [False]


@pytest.mark.parametrize(
    "text",
    [
        "9223372036854775808", "0 - 9223372036854775808", "-(9223372036854775808)", "99999999999999999999999",
        "9" * 4000, "0x10000000000000000", "02000000000000000000000", "0b1" + "0" * 64,
        "1e309", "1e-400", "1e39f", "1e-50f", "0x1p1024", "0x1p-1100", "4.0e-325",
    ],
)  # fmt: skip
def test_a_number_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(BadSelectorError, match=r"out of the range of a (long|float|double)$"):
        compile_selector(f"x = {text}")


@pytest.mark.parametrize(
    "text",
    ["1__", "1_", "0x", "0xG", "0b", "0b2", "1.2.3", "1e", "1e+", "12ab", "7L5", "0x1p", "5fd", "1._5", "3é", "1.L"],
)
def test_what_only_begins_like_a_number_is_refused(text: str) -> None:
    with pytest.raises(BadSelectorError, match=r"^the selector is wrong at character 5: .* is not a number$"):
        compile_selector(f"x = {text}")


def test_a_leading_zero_is_octal() -> None:
    with pytest.raises(BadSelectorError, match="'089' begins with 0, so it is octal"):
        compile_selector("x = 089")


def test_a_number_and_a_word_need_a_space() -> None:
    with pytest.raises(BadSelectorError, match="'1OR' is not a number"):
        compile_selector("x = 1OR y = 2")
    assert selected("x=1 OR(x)=2", x=[1, 2, 3]) == [True, True, False]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'literal'", "literal"), ("'literal''s'", "literal's"), ("''", ""), ("''''", "'"), ("' '", " "),
        ("'AND'", "AND"), ("'é🙂'", "é🙂"), ("'a\nb'", "a\nb"), ("'\\'", "\\"), ('\'"\'', '"'), ("'\x00'", "\x00"),
    ],
)  # fmt: skip
def test_strings(text: str, value: str) -> None:
    assert selected(f"x = {text}", x=[value, value + "x", None]) == [True, False, False]


def test_strings_are_told_apart_by_case_and_by_every_character() -> None:
    assert selected("x = 'Abc'", x=["Abc", "abc", "Abc ", "ABC"]) == [True, False, False, False]


@pytest.mark.parametrize("text", ["TRUE", "true", "True", "tRuE"])
def test_booleans_and_reserved_words_are_of_any_case(text: str) -> None:
    assert selected(f"x = {text} aNd x iS nOt nUlL", x=[True, False, None]) == [True, False, False]


@pytest.mark.parametrize(
    "name", ["a", "$", "_", "$a_1", "naïve", "Größe", "имя", "名前", "a٣", "€", "ⅷ", "x́", "NULLS", "ANDY"]
)
def test_names_are_those_of_java(name: str) -> None:
    compiled = compile_selector(f"{name}=1")
    assert compiled.identifiers == {name}
    assert selected(f"{name}=1", **{name: [1, 2]}) == [True, False]


def test_names_are_told_apart_by_case() -> None:
    assert compile_selector("a = A").identifiers == {"a", "A"}


@pytest.mark.parametrize(
    "word", ["NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE", "escape", "Between"]
)
def test_a_reserved_word_is_no_name(word: str) -> None:
    with pytest.raises(BadSelectorError):
        compile_selector(f"{word} = 1 AND x = 2")
    with pytest.raises(BadSelectorError):
        compile_selector(f"x + {word} > 1")


def test_white_space_is_that_of_java() -> None:
    assert selected(" \t\f\r\nx\r=\n1\f", x=[1]) == [True]
    for other in ("\v", "\u00a0", "\u2028", "\x00", "\ufeff"):
        with pytest.raises(BadSelectorError, match=f"character 2: unexpected {other!a}".replace("\\", r"\\")):
            compile_selector(f"x{other}= 1")


@pytest.mark.parametrize(
    "text", ["1 = 1", "0x10 = 16", "'a' = 'a'", "TRUE", "TRUE = true", "7. = 7", "1 < 1.5", "NOT FALSE"]
)
def test_literals_alone_are_true_of_every_message(text: str) -> None:
    assert outcome(text, 3) == "TTT"


@pytest.mark.parametrize("text", ["1 = 2", "'a' <> 'a'", "FALSE", "TRUE = FALSE", "2 + 2 = 5", "1 NOT BETWEEN 0 AND 2"])
def test_literals_alone_are_false_of_every_message(text: str) -> None:
    assert outcome(text, 3) == "FFF"
