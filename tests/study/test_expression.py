from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.study.expression import ExpressionError, Reference, parse


def test_what_it_names() -> None:
    expression = parse('rate.received[H] / rate.received["two words"] > 1.2 and first(rate.sent[A]) == "HornetQ 2.1.1"')
    assert expression.metrics() == {"rate.received", "rate.sent"}
    assert {named.scenario for named in expression.references()} == {"H", "two words", "A"}
    assert expression.systems() == {"HornetQ 2.1.1"}


def test_a_point_of_a_sweep() -> None:
    (named,) = parse('latency.p99.9[A, "size=1KiB"] < 0.01').references()
    assert named == Reference("latency.p99.9", "A", "size=1KiB")


@pytest.mark.parametrize(
    "text",
    [
        "1 < rate.received[B] / rate.received[A] < 10",
        "not (rate.received[A] <= 5 or rate.sent[A] >= -1.5)",
        "abs(rate.received[C] / rate.received[B] - 1) < 0.1",
        "min(spread(rate.received[A]), lead(rate.received[B]), 3) > max(1, 2)",
        'first(latency.p99[A]) != "x"',
        "rate.received[1] > 0",
    ],
)
def test_accepted(text: str) -> None:
    assert parse(text).text == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no expression"),
        ("rate.received[A] >", "is no expression"),
        ("rate.received[A]", "neither true nor false"),
        ("True", "neither true nor false"),
        ("rate.recieved[A] > 1", "there is no metric rate.recieved"),
        ("rate.received > 1", "rate.received is not accepted"),
        ("rate.received[A:B] > 1", r"write rate.received\[scenario\]"),
        ("rate.received[A, B] > 1", r"write rate.received\[scenario\]"),
        ('rate.received[A, "x", "y"] > 1', r"write rate.received\[scenario\]"),
        ("rate.received[A] == 1", "compare values with <"),
        ('"HornetQ" == first(rate.received[A])', "compare values with <"),
        ('first(rate.received[A]) > "HornetQ"', "is a name"),
        ("first(3) == 'x'", "takes one measure"),
        ("spread(rate.received[A], rate.received[B]) > 1", "takes one measure"),
        ("abs(1, 2) > 1", "takes one value"),
        ("max(1) > 1", "takes two values"),
        ("open('x') > 1", "there is no function open"),
        ("(1).bit_length() > 1", "there is no function"),
        ("__import__('os').system('true') > 1", "there is no function"),
        ("2 ** 9 > 1", "is not accepted"),
        ("[x for x in y] > 1", "is not accepted"),
        ("1 if 2 > 1 else 3", "neither true nor false"),
        ("(x := 1) > 0", "is not accepted"),
        ("'a' < 1", "is not a number"),
        ("rate.received[A] > 1j", "is not accepted"),
        ("1 > " + "-" * 995 + "1", "nested more than 50 times"),
        ("1 > 1" + "+1" * 60, "nested more than 50 times"),
        ("1 > " + "1" * 1000, "at most 1000 characters"),
        ("(" * 400 + "1" + ")" * 400 + " > 1", "is no expression"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(text)


@given(st.text(alphabet="rate.civd[]ABH\"'()<>=! andortx0123456789+-*/,:\n", max_size=40))
def test_any_text_is_accepted_or_a_sentence(text: str) -> None:
    with suppress(ExpressionError):
        assert parse(text).text == text
