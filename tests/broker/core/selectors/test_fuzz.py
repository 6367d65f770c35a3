"""Any text is a selector or a BadSelectorError, and a selector evaluates over any columns."""

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mqlab.broker.core.selectors import BadSelectorError, Selector, compile_selector

WORDS = (
    "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "NULL", "TRUE", "FALSE", "ESCAPE", "(", ")", ",", "=", "<>",
    "<", "<=", ">", ">=", "+", "-", "*", "/", "a", "b", "c", "d", "e", "JMSPriority", "JMSReplyTo", "1", "0", "-5",
    "2.5", "1e300", "0x7f", "9223372036854775807", "9223372036854775808", "'a'", "'%a_'", "'!'", "''", "'", ".", "é",
)  # fmt: skip
COLUMNS = {
    "a": pa.array([1, None, -(2**63), 2**63 - 1, 0], pa.int64()),
    "b": pa.array([0.0, None, float("nan"), float("inf"), -1e308], pa.float64()),
    "c": pa.array(["a", None, "", "%a_", "é"]),
    "d": pa.array([True, None, False, True, False]),
    "JMSPriority": pa.array([0, 9, 4, 4, 4], pa.int8()),
}
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=25).map(" ".join)


def try_it(text: str) -> None:
    try:
        selector = compile_selector(text)
    except BadSelectorError as error:
        said = str(error)
        assert said
        assert said.isprintable()
    else:
        assert isinstance(selector, Selector)
        assert selector.mask(5, COLUMNS).shape == (5,)


@settings(max_examples=1000, deadline=None)
@given(st.text())
@example("\x00")
@example("'" * 4096)
@example("9" * 4096)
@example("." * 4096)
@example("_" * 4096)
def test_any_text(text: str) -> None:
    try_it(text)


@settings(max_examples=1000, deadline=None)
@given(st.text(st.sampled_from("ab1'()=<>+-*/. _%,eExXfLNOT\n")))
def test_any_text_of_the_characters_of_selectors(text: str) -> None:
    try_it(text)


@settings(max_examples=2000, deadline=None)
@given(words)
def test_any_order_of_words(text: str) -> None:
    try_it(text)


@settings(max_examples=300, deadline=None)
@given(st.binary())
def test_any_bytes(data: bytes) -> None:
    """Bytes that are no UTF-8 become halves of surrogate pairs."""
    try_it(data.decode(errors="surrogateescape"))


conditions = st.recursive(
    st.sampled_from(
        ["a = 1", "b > a", "c = 'a'", "d", "e IS NULL", "c LIKE '%a_'", "a / JMSPriority > 1", "b * b <= a * a",
         "c NOT IN ('a', '')", "-a BETWEEN b AND JMSPriority - 1", "c = d", "b <> c", "d = TRUE", "a + c > 1", "d <> e"]
    ),
    lambda inner: st.one_of(
        inner.map(lambda one: f"NOT ({one})"),
        st.tuples(inner, st.sampled_from(["AND", "OR", "=", "<>"]), inner).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
    ),
    max_leaves=30,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(conditions)
def test_types_may_meet_in_any_way(text: str) -> None:
    """Whatever a message holds, it is selected, or its opposite is, or neither."""
    if len(text) > 4000:
        return
    true, false = (compile_selector(one).mask(5, COLUMNS) for one in (text, f"NOT ({text})"))
    assert not (true & false).any()


def test_a_selector_cut_short_anywhere() -> None:
    text = "a BETWEEN 1 AND 2 AND (c LIKE '%x' ESCAPE '!' OR NOT d) AND b IN ('u', 'v')"
    for end in range(1, len(text) + 1):
        try_it(text[:end])
