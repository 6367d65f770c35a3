from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.study.language.expression import ExpressionError, parse, text_of
from mqlab.study.language.reference import Reference


def test_what_it_names() -> None:
    expression = parse('rate.received[H] / rate.received["two words"] > 1.2 and first(rate.sent[A]) == "HornetQ 2.1.1"')
    assert {reference.metric for reference in expression.references()} == {"rate.received", "rate.sent"}
    assert {named.scenario for named in expression.references()} == {"H", "two words", "A"}
    assert expression.systems() == {"HornetQ 2.1.1"}


def test_a_point_of_a_sweep() -> None:
    (named,) = parse('latency.p99.9[A, "size=1KiB"] < 0.01').references()
    assert named == Reference("latency.p99.9", "A", "size=1KiB")


def test_parameters_and_systems() -> None:
    (named,) = parse('rate.sent[preload, preload=1000, size=1KiB] of "Q 1" > 1').references()
    assert named == Reference("rate.sent", "preload", where=(("preload", "1000"), ("size", "1KiB")), system="Q 1")
    assert not named.open
    (named,) = parse("max(rate.sent[\"two words\", selector='a, b', size=*]) > 1").references()
    assert named.where == (("selector", "a, b"), ("size", "*"))
    assert named.open


def test_systems_are_those_of_both_kinds() -> None:
    expression = parse('rate.sent[A] of "Q 1" > 1 and first(rate.sent[A]) == "Q 2"')
    assert expression.systems() == {"Q 1", "Q 2"}


@pytest.mark.parametrize(
    ("text", "about_each"),
    [
        ("rate.sent[A] > 1", True),
        ('rate.sent[A] of "Q" > 1', False),
        ('rate.sent[A] of "Q" > rate.sent[A]', True),
        ("spread(rate.sent[A]) > 1", False),
        ('first(rate.sent[A]) == "Q" and rate.sent[A] > 1', True),
        ("impact(rate.sent[A]) > 1", True),
    ],
)
def test_which_checks_are_about_each_system(text: str, about_each: bool) -> None:
    assert parse(text).about_each == about_each


def test_a_text_comes_back() -> None:
    text = 'max(latency.p99.9[A, size=*, durable=no] of "Q 1") > impact(syncs["a b", x=1.5]) + syncs[A, "size=1KiB"]'
    assert text_of(parse(text).tree.body) == text


@pytest.mark.parametrize(
    "text",
    [
        "1 < rate.received[B] / rate.received[A] < 10",
        "not (rate.received[A] <= 5 or rate.sent[A] >= -1.5)",
        "abs(rate.received[C] / rate.received[B] - 1) < 0.1",
        "min(spread(rate.received[A]), lead(rate.received[B]), 3) > max(1, 2)",
        'first(latency.p99[A]) != "x"',
        "rate.received[1] > 0",
        "mean(rate.sent[A, size=*]) > 0",
        "max(abs(rate.sent[A, size=*] - impact(rate.sent[B, size=*]))) < 3",
        'min(rate.sent["Q*"] of "X" / rate.sent["Q*"] of "Y") > 1',
        "min(rate.sent[A, size=12B], 3) > 1",
        "impact(rate.sent[A, size=12B]) > -3",
        "about(max(rate.sent[A, size=*]) / rate.sent[B], 20) and not about(impact(rate.sent[A]), -41.7)",
    ],
)
def test_accepted(text: str) -> None:
    assert parse(text).text == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not an expression"),
        ("rate.received[A] >", "is not an expression"),
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
        ("mean(1, 2) > 1", "takes one value"),
        ("max() > 1", "takes values"),
        ("mean(rate.sent[A]) > 1", r"or a measure of several points like rate.received\[A, size=\*\]"),
        ("max(min(rate.sent[A, size=*])) > 1", "or a measure of several points"),
        ("rate.sent[A, size=*] > 1", "matches several points; take the min"),
        ('rate.sent["Q*"] > 1', "matches several points"),
        ("spread(rate.sent[A, size=*]) > 1", "matches several points"),
        ('spread(rate.sent[A] of "Q") > 1', "is over all systems; leave out of"),
        ("impact(3) > 1", "takes one measure"),
        ("about(rate.sent[A])", "takes a value and a number"),
        ("about(rate.sent[A], 0)", "takes a value and a number that is not 0"),
        ("about(rate.sent[A], rate.sent[B])", "takes a value and a number"),
        ("about(rate.sent[A, size=*], 2)", "matches several points"),
        ("about(rate.sent[A], 2) > 1", "is true or false, and not a number"),
        ('rate.sent[A, "size=12B", durable=no] > 1', "the name of the point or its parameters, not both"),
        ("rate.sent[size=12B] > 1", r"write rate.sent\[scenario\]"),
        ("rate.sent[A] of Q > 1", "is not an expression"),
        ("open('x') > 1", "there is no function open"),
        ("(1).bit_length() > 1", "there is no function"),
        ("__import__('os').system('true') > 1", "there is no function"),
        ("2 ** 9 > 1", "is not accepted"),
        ("[x for x in y] > 1", "is not accepted"),
        ("1 if 2 > 1 else 3", "neither true nor false"),
        ("(x := 1) > 0", "is not accepted"),
        ("'a' < 1", "is not a number"),
        ("rate.received[A] > 1j", "is not accepted"),
        ("1 > " + "-" * 995 + "1", "nested more than 50 levels deep"),
        ("1 > 1" + "+1" * 60, "nested more than 50 levels deep"),
        ("1 > " + "1" * 1000, "at most 1000 characters"),
        ("(" * 400 + "1" + ")" * 400 + " > 1", "is not an expression"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(text)


@given(st.text(alphabet="rate.civdof *=[]ABH\"'()<>=! andortx0123456789+-*/,:\n", max_size=40))
def test_any_text_is_accepted_or_a_sentence(text: str) -> None:
    with suppress(ExpressionError):
        assert parse(text).text == text
