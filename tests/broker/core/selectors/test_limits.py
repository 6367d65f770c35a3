"""Limits: the last text that is taken, the first that is not, and patterns made to take long."""

import pyarrow as pa
import pytest

from mqlab.broker.core.selectors import BadSelectorError, compile_selector
from mqlab.broker.limits import LIKE_FLOATING, SELECTOR, SELECTOR_DEPTH

from .selector_outcomes import outcome, selected


def of_size(size: int, character: str = "a") -> str:
    """A selector of so many bytes in UTF-8."""
    rest = size - len("x = ''")
    width = len(character.encode())
    return "x = '" + character * (rest // width) + "b" * (rest % width) + "'"


@pytest.mark.parametrize("character", ["a", "é", "🙂"])
def test_a_text_has_at_most_4_kib(character: str) -> None:
    assert SELECTOR == 4096
    for size in (SELECTOR - 1, SELECTOR):
        assert len(of_size(size, character).encode()) == size
        assert compile_selector(of_size(size, character)).identifiers == {"x"}
    with pytest.raises(BadSelectorError, match=r"^a selector has at most 4096 bytes, this one 4097$"):
        compile_selector(of_size(SELECTOR + 1, character))


@pytest.mark.parametrize("inner", ["x", "x = 1", "x + 1 = 2"])
def test_brackets_are_nested_so_deep_and_no_deeper(inner: str) -> None:
    for depth in (SELECTOR_DEPTH - 1, SELECTOR_DEPTH):
        assert compile_selector("(" * depth + inner + ")" * depth).identifiers == {"x"}
    depth = SELECTOR_DEPTH + 1
    message = rf"character {depth}: brackets are nested more than {SELECTOR_DEPTH} times$"
    with pytest.raises(BadSelectorError, match=message):
        compile_selector("(" * depth + inner + ")" * depth)


@pytest.mark.parametrize("count", [1_000, 2_000, 10_000, 1_000_000])
@pytest.mark.parametrize("text", ["(", "NOT (", "x = (", "-(", ")", "x IN (", "x AND (NOT "])
def test_thousands_of_brackets_are_refused(text: str, count: int) -> None:
    with pytest.raises(BadSelectorError):
        compile_selector(text * count)
    with pytest.raises(BadSelectorError):
        compile_selector(text * count + "x" + ")" * count)


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("NOT (", ")"), ("a OR (b AND ", ")"), ("(b AND a) = (", ")"), ("NOT (a = (", "))"), ("(", ") <> FALSE"),
        ("NOT (b AND NOT (a OR ", "))"), ("b = (NOT (NOT (", ")))"), ("a AND b OR NOT (b AND NOT (b = (", ")))"),
    ],
)  # fmt: skip
def test_the_deepest_selector_is_evaluated(opening: str, closing: str) -> None:
    """Each level asks both questions of the next: the time must not double with each, nor the stack overflow."""
    # An even number of levels, and one more that the opposite needs.
    levels = (SELECTOR_DEPTH - 1) // closing.count(")") // 2 * 2
    text = opening * levels + "a" + closing * levels
    assert outcome(text, a=[True, False, None], b=[True] * 3) == "TFU"


def test_the_deepest_arithmetic_is_evaluated() -> None:
    text = "(x - " * SELECTOR_DEPTH + "1" + ")" * SELECTOR_DEPTH
    assert selected(f"{text} = 1", x=[1, 2]) == [True, True]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x" + " + 1" * 1000 + " = 1001", "TF"), ("1" + "*1" * 1500 + "*x=1", "TF"), ("- " * 2000 + "x = 1", "TF"),
        ("NOT " * 1000 + "x = 1", "TF"), ("x = 1" + " AND x=1" * 500, "TF"), ("x = 1" + " OR x=3" * 500, "TF"),
        ("x" + " / 1" * 1000 + " = 1", "TF"), ("y IN ('a'" + ",'b'" * 1000 + ")", "TF"),
    ],
)  # fmt: skip
def test_long_chains_are_not_deep(text: str, expected: str) -> None:
    assert outcome(text[: SELECTOR - 6], x=[1, 2], y=["a", "c"]) == expected


HOSTILE = ["a" * 500, "ab" * 250, "b" * 500, "a" * 499 + "b", "", "é" * 250]


@pytest.mark.parametrize(
    "pattern",
    ["%a" * 2000, "%a%b" * 900 + "%c", "_" * 4000, "%_" * 2000, "a%" * 2000 + "b", "%" * 4000, "%é" * 1300,
     "_%" * 2000 + "c", "%ab" * 1300, "%aab%abb" * 400],
)  # fmt: skip
def test_a_pattern_of_wildcards_is_bounded(pattern: str) -> None:
    """No pattern ever goes back in the text: a matcher that does would not end on the first of them."""
    column = pa.array(HOSTILE * 100)
    assert selected(f"x LIKE '{pattern}'", x=column).count(True) == (len(column) if set(pattern) == {"%"} else 0)


def test_floating_single_wildcards_are_bounded() -> None:
    for count in (LIKE_FLOATING - 1, LIKE_FLOATING):
        text = "b" * 99 + "a" + "b" * count + "c"
        assert selected(f"x LIKE '%a{'_' * count}c%'", x=[text, text[:-1]]) == [True, False]
    message = f"character 8: a pattern has at most {LIKE_FLOATING} '_' after a '%', this one {LIKE_FLOATING + 1}$"
    with pytest.raises(BadSelectorError, match=message):
        compile_selector(f"x LIKE '%a{'_' * (LIKE_FLOATING + 1)}c%'")
    with pytest.raises(BadSelectorError, match=message):
        compile_selector(f"x LIKE '%{'a_' * (LIKE_FLOATING + 1)}c'")


@pytest.mark.parametrize("pattern", ["a" + "_" * 100 + "%", "%" + "_" * 100 + "a", "_" * 100 + "%a"])
def test_single_wildcards_with_a_place_of_their_own_have_no_limit(pattern: str) -> None:
    assert selected(f"x LIKE '{pattern}'", x=["a" * 101, "a" * 100]) == [True, False]


def test_half_of_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(BadSelectorError, match=r"^the selector is wrong at character 6: half of a surrogate pair"):
        compile_selector("x = '\ud800'")
