"""Message templates encode and decode as the general functions do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.wire.native.columns import decode_single, encode_single
from mqlab.wire.native.payload import SINGLE, Payload
from mqlab.wire.templates import MessageTemplate

NAMES = ("correlation_id", "reply_to", "type")
texts = st.text(max_size=20)
bodies = st.binary(max_size=40)


def written(values: list[str], body: bytes) -> Payload:
    return encode_single(body, NAMES[: len(values)], "s" * len(values), values)


@given(st.lists(texts, min_size=1, max_size=3), bodies)
def test_template_equals_encode_single(values: list[str], body: bytes) -> None:
    form = MessageTemplate(NAMES[: len(values)], values[1:])
    message = form.message(values[0], body)
    assert message == written(values, body)
    assert decode_single(message).values == dict(zip(NAMES, values, strict=False))


@given(st.lists(texts, min_size=1, max_size=3), bodies, st.booleans())
def test_template_equals_decode_single(values: list[str], body: bytes, viewed: bool) -> None:
    form, message = MessageTemplate(NAMES[: len(values)], values[1:]), written(values, body)
    if viewed:
        message = message._replace(data=memoryview(message.data))
    assert form.body(message, values[0]) == body
    found = form.parts(message)
    assert found is not None
    assert (found[0], bytes(found[1])) == (values[0], body)


@given(st.lists(texts, min_size=1, max_size=3), st.lists(texts, min_size=1, max_size=3), bodies, texts)
def test_what_is_not_is_left_to_the_general_way(values: list[str], others: list[str], body: bytes, text: str) -> None:
    form, message = MessageTemplate(NAMES[: len(values)], values[1:]), written(others, body)
    alike = len(values) == len(others) and values[1:] == others[1:]
    assert form.body(message, text) == (body if alike and others[0] == text else None)
    found = form.parts(message)
    assert (found is not None) == alike
    if found is not None:
        assert (found[0], bytes(found[1])) == (others[0], body)


@pytest.mark.parametrize("size", range(60))
@pytest.mark.parametrize("others", [{}, {"reply_to": "queue:replies"}])
def test_of_what_is_cut_off_nothing_is_read(size: int, others: dict[str, str]) -> None:
    form = MessageTemplate(("correlation_id", *others), [*others.values()])
    whole = bytes(form.message("an id", b"").data)
    cut = Payload(whole[:size], 1, form.message("", b"").form)
    assert (form.parts(cut) is not None) == (form.body(cut, "an id") is not None) == (size >= len(whole))


def test_a_body_alone_is_not_of_any_form() -> None:
    form = MessageTemplate(("correlation_id",))
    lookalike = Payload(form.message("id", b"body").data, 1, SINGLE)
    assert form.parts(lookalike) is None
    assert form.body(lookalike, "id") is None
