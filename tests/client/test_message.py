"""Messages and deliveries as a consumer sees them."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.client.message import Delivery, Message, UnreadMessages
from mqlab.wire.native.bodies import Payload, encode, select_rows
from mqlab.wire.native.columns import Value, encode_columns, encode_single
from mqlab.wire.receive_buffers import receive_buffer

FULL: dict[str, tuple[str, Value]] = {
    "id": ("u", bytes(range(16))), "timestamp": ("q", 1_700_000_000_000), "correlation_id": ("s", "c-1"),
    "reply_to": ("s", "queue:replies"), "type": ("s", "order"), "priority": ("b", 0), "expiration": ("q", 5),
    "deliver_at": ("q", 3), "group": ("s", "g"), ".count": ("i", 7), ".colour": ("s", ""), ".known": ("?", False),
}  # fmt: skip


def full() -> Payload:
    values = [value for _, value in FULL.values()]
    return encode_single(b"body", tuple(FULL), "".join(letter for letter, _ in FULL.values()), values)


def mixed() -> Payload:
    """Three messages, of which only the second has all that the batch has columns for."""
    types = {"u": pa.binary(16), "q": pa.int64(), "s": pa.string(), "b": pa.int8(), "i": pa.int32(), "?": pa.bool_()}
    columns = {name: pa.array([None, value, None], types[letter]) for name, (letter, value) in FULL.items()}
    return encode_columns(pa.array([b"a", b"body", b"c"], pa.binary()), columns)


def delivered(
    payload: Payload, first: int = 1, delivered: int = 0, persistent: bool = False, destination: str = "queue:q"
) -> Delivery:
    return Delivery(first, payload, delivered, persistent, destination)


def seen(message: Message) -> dict[str, object]:
    return {
        name: getattr(message, name)
        for name in (
            "body", "id", "timestamp", "correlation_id", "reply_to", "type", "priority", "expiration", "deliver_at",
            "group", "properties",
        )
    }  # fmt: skip


ALL = {
    "body": b"body", "id": "ID:000102030405060708090a0b0c0d0e0f", "timestamp": 1_700_000_000_000,
    "correlation_id": "c-1", "reply_to": "queue:replies", "type": "order", "priority": 0, "expiration": 5,
    "deliver_at": 3, "group": "g", "properties": {"count": 7, "colour": "", "known": False},
}  # fmt: skip
NOTHING: dict[str, object] = {
    "id": None, "timestamp": None, "correlation_id": None, "reply_to": None, "type": None, "priority": 4,
    "expiration": 0, "deliver_at": 0, "group": None, "properties": {},
}  # fmt: skip


def test_a_single_message_with_everything() -> None:
    (message,) = delivered(full()).messages()
    assert seen(message) == ALL


@pytest.mark.parametrize("payload", [encode([b"body"]), select_rows(mixed(), range(2, 3))], ids=["plain", "cut"])
def test_a_single_message_with_nothing(payload: Payload) -> None:
    (message,) = delivered(payload).messages()
    assert seen(message) == NOTHING | {"body": message.body}


def test_messages_that_came_together() -> None:
    assert [seen(message) for message in delivered(mixed()).messages()] == [
        NOTHING | {"body": b"a"}, ALL, NOTHING | {"body": b"c"},
    ]  # fmt: skip


def test_messages_that_came_together_with_nothing_but_bodies() -> None:
    assert [seen(message) for message in delivered(encode([b"a", b"b"])).messages()] == [
        NOTHING | {"body": b"a"}, NOTHING | {"body": b"b"},
    ]  # fmt: skip


@pytest.mark.parametrize("payload", [full(), mixed()], ids=["single", "batch"])
def test_headers_of_a_delivery_that_was_never_taken_apart(payload: Payload) -> None:
    delivery, row = delivered(payload), payload.rows // 2
    assert delivery.header("correlation_id", row) == "c-1"
    assert delivery.header(".count", row) == 7
    assert delivery.header("duplicate_id", row) is None
    assert delivery.properties(row) == ALL["properties"]


def test_one_column_of_all() -> None:
    batch, single = delivered(mixed()), delivered(full())
    ids, counts, count = batch.column("correlation_id"), batch.column(".count"), single.column(".count")
    assert ids is not None
    assert counts is not None
    assert count is not None
    assert ids.to_pylist() == [None, "c-1", None]
    assert counts.type == count.type == pa.int32()
    assert count.to_pylist() == [7]
    assert batch.column("duplicate_id") is None
    assert delivered(encode([b"a", b"b"])).column("correlation_id") is None
    assert batch.batch().schema.names == ["body", *FULL]


def test_bodies_of_all() -> None:
    assert delivered(mixed()).bodies().tolist() == [b"a", b"body", b"c"]
    assert delivered(full()).bodies().tolist() == [b"body"]


@pytest.mark.parametrize("times", [0, 1, 5])
def test_how_often_it_was_delivered(times: int) -> None:
    delivery = delivered(mixed(), delivered=times)
    assert delivery.redelivered is (times > 0)
    for message in delivery.messages():
        assert (message.redelivered, message.delivery_count) == (times > 0, times + 1)


def test_where_it_comes_from() -> None:
    delivery = delivered(mixed(), first=40, persistent=True, destination="topic:news.de")
    assert delivery.rows == 3
    messages = delivery.messages()
    assert [message.delivery_id for message in messages] == [40, 41, 42]
    assert {message.destination for message in messages} == {"topic:news.de"}
    assert all(message.persistent for message in messages)
    assert not any(message.persistent for message in delivered(mixed()).messages())


@pytest.mark.parametrize("rows", [1, 2])
def test_the_rest_of_a_delivery(rows: int) -> None:
    whole = delivered(mixed(), first=40, delivered=2, persistent=True, destination="topic:t")
    rest = whole.after(rows)
    assert (rest.first, rest.rows) == (40 + rows, 3 - rows)
    assert (rest.delivered, rest.persistent, rest.destination) == (2, True, "topic:t")
    assert [seen(message) for message in rest.messages()] == [seen(message) for message in whole.messages()[rows:]]


@pytest.mark.parametrize("payload", [full(), mixed()], ids=["single", "batch"])
def test_while_a_message_lives_the_memory_it_came_in_is_not_used_again(payload: Payload) -> None:
    """Its headers are read only when somebody asks."""
    view = receive_buffer(64 * 1024)[: len(payload.data)]
    view[:] = bytes(payload.data)
    message = delivered(Payload(view, payload.rows, payload.form)).messages()[payload.rows // 2]
    del view
    for other in [receive_buffer(64 * 1024) for _ in range(50)]:
        other[:] = bytes(len(other))
    assert seen(message) == ALL


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=30), st.data())
def test_what_is_left_unread_is_what_the_long_way_gives(bodies: list[bytes], data: st.DataObject) -> None:
    """Messages and bodies in any order, and then the rest: each message once, as a row of its delivery."""
    delivery = delivered(encode(bodies), first=7)
    expected = [Message(body, row, delivery) for row, body in enumerate(bodies)]
    assert delivery.messages() == expected
    unread = UnreadMessages(delivery)
    read = data.draw(st.integers(0, len(bodies)))
    for message in expected[:read]:
        if data.draw(st.booleans()):
            assert next(unread.messages) == message
        else:
            assert next(unread.bodies) == message.body
    assert len(unread) == len(bodies) - read
    if unread:
        rest = unread.take_rest()
        assert (rest.first, rest.bodies().tolist()) == (7 + read, bodies[read:])
    assert (len(unread), [*unread.messages], [*unread.bodies]) == (0, [], [])


def test_what_is_discarded_is_gone_also_for_those_who_iterate() -> None:
    unread = UnreadMessages(delivered(mixed()))
    messages = iter(unread.messages)
    assert next(messages).body == b"a"
    unread.discard()
    assert (len(unread), [*messages], [*unread.bodies]) == (0, [], [])
