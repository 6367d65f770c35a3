"""Names of destinations. They are keys and log text, never paths: odd ones are allowed, dangerous ones are not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.broker import limits
from mqlab.broker.core.model.destination_names import BadNameError, parse


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("queue:orders", ("queue", "orders")),
        ("topic:prices.eu", ("topic", "prices.eu")),
        ("queue:a:b", ("queue", "a:b")),
        ("queue:../../etc/passwd", ("queue", "../../etc/passwd")),
        ("queue:zwei Wörter", ("queue", "zwei Wörter")),
    ],
)
def test_names(name: str, parsed: tuple[str, str]) -> None:
    assert parse(name) == parsed


@pytest.mark.parametrize(
    "name",
    [
        "", "orders", "queue", "queue:", "Queue:q", "list:q", ":q", "queue: q", "queue:q ", "queue:a\x00b",
        "queue:a\nb", "queue:a\x1b[31mb", "queue:\u202eabc", "queue:\ud800", "queue:a\u2028b", "queue:\u200b",
    ],
)  # fmt: skip
def test_no_names(name: str) -> None:
    with pytest.raises(BadNameError):
        parse(name)


@pytest.mark.parametrize("letter", ["a", "ä", "€", "𝄞"])
def test_a_name_is_bounded_in_bytes(letter: str) -> None:
    size = len(letter.encode())
    fitting = letter * (limits.NAME // size) + "a" * (limits.NAME % size)
    assert len(fitting.encode()) == limits.NAME == 255
    assert parse(f"queue:{fitting}") == ("queue", fitting)
    assert parse(f"queue:{fitting[:-1]}") == ("queue", fitting[:-1])
    with pytest.raises(BadNameError, match="255"):
        parse(f"queue:{fitting}a")


@settings(deadline=None)
@given(st.text(alphabet=st.characters()))
def test_any_text_is_a_name_or_a_short_clear_error(text: str) -> None:
    said = ""
    try:
        assert parse(f"topic:{text}") == ("topic", text)
        assert text.isprintable()
    except BadNameError as error:
        said = str(error)
    assert said.isprintable()
    assert len(said) < 1000
