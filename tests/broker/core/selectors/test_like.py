"""LIKE: the examples of the specification, escapes, every character there is, and an oracle that takes its time."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.broker.core.selectors import BadSelectorError, compile_selector

from .selector_outcomes import outcome, selected


@pytest.mark.parametrize(
    ("condition", "yes", "no"),
    [
        ("LIKE '12%3'", ["123", "12993", "12\n3"], ["1234", "012%3", "12", ""]),
        ("LIKE 'l_se'", ["lose", "l%se", "lése", "l🙂se", "l\nse"], ["loose", "lse", "LOSE", "lose\n"]),
        (r"LIKE '\_%' ESCAPE '\'", ["_foo", "_"], ["bar", ""]),
        ("NOT LIKE '12%3'", ["1234", ""], ["123", "12993"]),
        ("LIKE ''", [""], ["a", " "]),
        ("LIKE '%'", ["", "a", "é\n"], []),
        ("LIKE '_'", ["a", "é", "🙂", "\n", "_"], ["", "ab"]),
        ("LIKE '__'", ["ab", "🙂🙂"], ["", "a", "abc"]),
        ("LIKE '%_'", ["a", "ab"], [""]),
        ("LIKE '_%_'", ["ab", "abc"], ["", "a"]),
        ("LIKE 'abc'", ["abc"], ["abcd", "xabc", "ABC", "abc "]),
        ("LIKE 'a%'", ["a", "ab"], ["", "ba"]),
        ("LIKE '%a'", ["a", "ba"], ["", "ab", "a\n"]),
        ("LIKE '%a%'", ["a", "bab"], ["", "b"]),
        ("LIKE '%%a%%'", ["a", "bab"], ["", "b"]),
        ("LIKE 'a%b%c'", ["abc", "axbxc", "aabbcc", "abcbc"], ["acb", "ab", "abcd"]),
        ("LIKE 'a%a'", ["aa", "aba"], ["a"]),
        ("LIKE '%ab%ab%'", ["abab", "xabxabx"], ["aba", "ab"]),
        ("LIKE '%a_c%'", ["abc", "xxabcxx", "aacc"], ["ac", "acb"]),
        ("LIKE '100!%' ESCAPE '!'", ["100%"], ["100", "1000", "100!%"]),
        ("LIKE 'a!!b' ESCAPE '!'", ["a!b"], ["a!!b", "ab"]),
        ("LIKE '%!%%' ESCAPE '!'", ["%", "a%b"], ["ab", ""]),
        ("LIKE 'a%%%_' ESCAPE '%'", ["a%_"], ["a%x", "axx"]),
        ("LIKE 'it''s%'", ["it's", "it's so"], ["its"]),
        ("LIKE '!%' ESCAPE ''''", ["!", "!x"], ["x"]),
        (r"LIKE '\%'", ["\\", "\\a"], ["%", "a"]),
        ("LIKE '.*+?()[]{}|^$%x'", [".*+?()[]{}|^$x", ".*+?()[]{}|^$ x"], ["x", "aaax"]),
        ("LIKE 'a\nb%c'", ["a\nbc", "a\nb\nc"], ["abc"]),
        ("LIKE 'a\x00%b'", ["a\x00b", "a\x00xb"], ["a", "ab"]),
        ("LIKE '%é_名%'", ["éx名", "aé🙂名z"], ["é名", "e名名"]),
    ],
)  # fmt: skip
def test_patterns(condition: str, yes: list[str], no: list[str]) -> None:
    assert outcome(f"x {condition}", x=[*yes, *no, None]) == "T" * len(yes) + "F" * len(no) + "U"


@pytest.mark.parametrize(
    ("text", "escape"), [("a!b", "!"), ("!", "!"), ("a%!", "!"), ("!!!", "!"), ("! _", "!"), ("___", "_"), ("%a", "%")]
)
def test_an_escape_character_that_escapes_nothing_is_refused(text: str, escape: str) -> None:
    with pytest.raises(BadSelectorError) as error:
        compile_selector(f"x LIKE '{text}' ESCAPE '{escape}'")
    assert str(error.value) == (
        f"the selector is wrong at character 8: the escape character '{escape}' stands before '_', '%' or itself"
    )


def like(text: str, pattern: str) -> bool:
    """By the definition: `reached` are the places in the text that the pattern so far can end at."""
    reached = {0}
    for character in pattern:
        if character == "%":
            reached = set(range(min(reached, default=len(text) + 1), len(text) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(text) and character in ("_", text[at])}
    return len(text) in reached


texts = st.text(st.sampled_from("ab_%é🙂\n."), max_size=12)


@settings(deadline=None)
@given(st.lists(texts, min_size=1, max_size=20), texts)
def test_any_pattern_over_any_texts(column: list[str], pattern: str) -> None:
    expected = [like(text, pattern) for text in column]
    assert selected(f"x LIKE '{pattern}'", x=pa.array(column, pa.string())) == expected


@settings(deadline=None)
@given(texts, texts)
def test_an_escaped_text_matches_itself_only(text: str, other: str) -> None:
    escaped = "".join(f"!{one}" if one in "_%!" else one for one in text)
    assert selected(f"x LIKE '{escaped}' ESCAPE '!'", x=[text, other]) == [True, other == text]
    assert selected(f"x LIKE '%{escaped}%' ESCAPE '!'", x=[text, other]) == [True, text in other]


@pytest.mark.parametrize("pattern", ["%", "a%", "%a%", "a_%b", "_", "%_a%"])
def test_a_text_that_is_not_utf_8_stops_nothing(pattern: str) -> None:
    """A client's bytes are not looked at before a selector reads them."""
    data = pa.array([b"\xff\xfea", b"a\x80b", b"\xc3", b"ab"]).view(pa.string())
    mask = compile_selector(f"x LIKE '{pattern}' OR x = 'ab' OR x IN ('a', 'ab')").mask(4, {"x": data})
    assert mask[3]
