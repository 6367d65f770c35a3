"""Types that are only known when a message is there: what each operator makes of values it is not for."""

import numpy as np
import pyarrow as pa
import pytest

from mqlab.broker.core.selectors import BadSelectorError, compile_selector

from .selector_outcomes import outcome, selected

INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
APPROXIMATES = (pa.float32(), pa.float64())


@pytest.mark.parametrize("kind", INTEGERS + APPROXIMATES, ids=str)
def test_every_numeric_type_is_a_number(kind: pa.DataType) -> None:
    column = pa.array([3, None, -4, 0], kind)
    assert outcome("x > -4", x=column) == "TUFT"
    assert outcome("x = 3.0", x=column) == "TUFF"
    assert outcome("x * 1000 = 3000", x=column) == "TUFF"
    assert outcome("-x = 4", x=column) == "FUTF"
    assert outcome("x < 9223372036854775807 AND x > -9223372036854775808", x=column) == "TUTT"
    assert outcome("x = 1e300", x=column) == "FUFF"


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_numbers_of_different_types_meet(kind: pa.DataType) -> None:
    column = pa.array([3, 100, None], kind)
    for other in INTEGERS + APPROXIMATES:
        assert outcome("x = y", x=column, y=pa.array([3, 99, 1], other)) == "TFU"
        assert outcome("x - y < 1", x=column, y=pa.array([3, 99, 1], other)) == "TFU"


def test_a_long_that_meets_a_double_becomes_one() -> None:
    column = pa.array([2**53 + 1, 2**53 - 1], pa.int64())
    assert outcome("x = 9007199254740992.0", x=column) == "TF"
    assert outcome("x = y", x=column, y=pa.array([2.0**53, 2.0**53])) == "TF"


@pytest.mark.parametrize(
    "text", ["x = 1", "x <> 1", "x < 1", "x >= 1", "x BETWEEN 1 AND 2", "x NOT BETWEEN 1 AND 2", "1 = x"]
)
def test_a_string_compared_with_a_number_is_false(text: str) -> None:
    assert outcome(text, x=["1", "", None]) == "FFU"


def test_the_opposite_of_a_false_comparison_is_true() -> None:
    assert selected("NOT (x = 1)", x=["1", None]) == [True, False]


@pytest.mark.parametrize(
    "text", ["x = 'a'", "x <> 'a'", "x IN ('a')", "x LIKE 'a'", "x LIKE '%'", "x = TRUE", "x <> TRUE"]
)
def test_a_number_is_neither_string_nor_boolean(text: str) -> None:
    assert outcome(text, x=[1, 0, None]) == "FFU"
    assert outcome(text, x=[1.0, 0.0, None]) == "FFU"


OTHER_TYPES = {
    "a number": [1, None], "a double": [1.5, None], "a boolean": [True, None],
    "bytes": pa.array([b"a", None], pa.binary()),
}  # fmt: skip


@pytest.mark.parametrize("column", OTHER_TYPES.values(), ids=OTHER_TYPES)
@pytest.mark.parametrize(
    "text", ["x IN ('a')", "x NOT IN ('a')", "x LIKE 'a'", "x NOT LIKE 'a'", "x = 'a'", "x <> 'a'"]
)
def test_an_operator_of_strings_is_false_for_a_value_of_another_type(
    text: str, column: pa.Array | list[object]
) -> None:
    """Also the negated one: neither selects the message. NOT before it is another operator: it makes FALSE TRUE."""
    assert outcome(text, x=column) == "FU"
    assert selected(f"NOT ({text})", x=column) == [True, False]


@pytest.mark.parametrize("column", [["a", None], [True, None], pa.array([b"a", None], pa.binary())], ids=str)
@pytest.mark.parametrize("text", ["x BETWEEN 1 AND 2", "x NOT BETWEEN 1 AND 2", "x > 0", "x <= 0"])
def test_an_operator_of_numbers_is_false_for_a_value_of_another_type(
    text: str, column: pa.Array | list[object]
) -> None:
    assert outcome(text, x=column) == "FU"


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
def test_strings_and_booleans_have_no_order(operator: str) -> None:
    assert outcome(f"x {operator} y", x=["a", "b", None], y=["a", "a", "a"]) == "FFU"
    assert outcome(f"x {operator} y", x=[True, False, None], y=[True, True, True]) == "FFU"


@pytest.mark.parametrize("operator", ["=", "<>"])
def test_properties_of_unlike_types_compare_false(operator: str) -> None:
    columns = {"s": ["1", None], "n": [1, 1], "b": [True, True]}
    for one, other in (("s", "n"), ("n", "s"), ("b", "s"), ("s", "b")):
        assert outcome(f"{one} {operator} {other}", **columns) == "FU"
    assert outcome(f"n {operator} b", **columns) == "FF"
    assert outcome(f"n {operator} (s IS NULL)", **columns) == "FF"


@pytest.mark.parametrize("text", ["x + 1 = 2", "1 - x = 0", "-x = 1", "+x = 1", "n * x = 1", "n + 1 > -x"])
@pytest.mark.parametrize("column", [["1", "2"], [True, False]], ids=str)
def test_arithmetic_with_what_is_no_number_is_unknown(text: str, column: list[object]) -> None:
    assert outcome(text, x=column, n=[1, 2]) == "UU"


@pytest.mark.parametrize("column", [["true", "a"], [1, 0], [1.0, 0.0]], ids=str)
def test_a_property_that_stands_alone_and_is_no_boolean_is_unknown(column: list[object]) -> None:
    assert outcome("x", x=column) == "UU"


def test_a_column_of_another_type_equals_nothing() -> None:
    column = pa.array([b"a", None], pa.binary())
    assert outcome("x = 'a'", x=column) == "FU"
    assert outcome("x = x", x=column) == "FU"
    assert outcome("x + 1 = 2", x=column) == "UU"
    assert outcome("x LIKE '%'", x=column) == "FU"
    assert outcome("x IS NULL", x=column) == "FT"


def test_a_column_of_nothing_is_null() -> None:
    for kind in (pa.null(), pa.int8(), pa.float32(), pa.string(), pa.bool_()):
        column = pa.nulls(2, kind)
        assert outcome("x = 1 OR x = 'a' OR x", x=column) == "UU"
        assert outcome("x IS NULL", x=column) == "TT"


def test_a_batch_without_messages() -> None:
    for kind in INTEGERS + APPROXIMATES + (pa.string(), pa.bool_()):
        mask = compile_selector("x = 1 OR x = 'a' OR x").mask(0, {"x": pa.array([], kind)})
        assert (mask.shape, mask.dtype) == ((0,), np.dtype(bool))


def test_header_fields() -> None:
    columns = {
        "JMSDeliveryMode": ["PERSISTENT", "NON_PERSISTENT"], "JMSPriority": pa.array([9, 4], pa.int8()),
        "JMSMessageID": ["ID:1", None], "JMSCorrelationID": [None, "c"], "JMSType": ["car", None],
        "JMSTimestamp": [1_700_000_000_000, 0],
    }  # fmt: skip
    assert outcome("JMSDeliveryMode = 'PERSISTENT'", **columns) == "TF"
    assert outcome("JMSPriority > 4", **columns) == "TF"
    assert outcome("JMSMessageID LIKE 'ID:%'", **columns) == "TU"
    assert outcome("JMSCorrelationID = 'c'", **columns) == "UT"
    assert outcome("JMSType IS NULL", **columns) == "FT"
    assert outcome("JMSTimestamp >= 1700000000000", **columns) == "TF"


@pytest.mark.parametrize(
    "name", ["JMSDestination", "JMSReplyTo", "JMSExpiration", "JMSRedelivered", "JMS", "JMSpriority"]
)
@pytest.mark.parametrize("text", ["{} = 'a'", "{} IS NULL", "x = 1 AND {} LIKE 'a'", "1 + {} > 1"])
def test_other_header_fields_are_refused(name: str, text: str) -> None:
    whole = text.format(name)
    with pytest.raises(BadSelectorError) as error:
        compile_selector(whole)
    assert str(error.value) == (
        f"the selector is wrong at character {whole.index(name) + 1}: '{name}' cannot be used in a selector; accepted: "
        "JMSDeliveryMode, JMSPriority, JMSMessageID, JMSTimestamp, JMSCorrelationID, JMSType, JMSX..., JMS_..."
    )


def test_names_for_properties_of_the_provider_are_properties() -> None:
    columns = {"JMSXGroupID": ["g"], "JMS_vendor": [1], "jmsReplyTo": [1], "XJMSReplyTo": [1]}
    assert outcome("JMSXGroupID = 'g' AND JMS_vendor = 1 AND jmsReplyTo = 1 AND XJMSReplyTo = 1", **columns) == "T"
