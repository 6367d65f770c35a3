"""Encoding of messages: ids, times, headers and typed properties; invalid ones are refused."""

import math
import time
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqlab.client import headers as module
from mqlab.client.headers import Byte, Float, Headers, Int, MessageEncoder, ProducerDefaults, Short
from mqlab.client.message import Delivery, Message
from mqlab.wire.native.bodies import COLUMNS, SINGLE, Payload, decode, validate
from mqlab.wire.native.columns import Value, column, column_names, decode_batch, decode_single

NOW = 1_700_000_000_000


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands still: all times of a message count from one look at it."""
    monkeypatch.setattr(module, "_now_ms", lambda: NOW)


def sent(payload: Payload) -> list[Message]:
    """As a consumer gets it."""
    validate(payload)
    return Delivery(1, payload, 0, False, "queue:q").messages()


def said(headers: Headers, standing: ProducerDefaults | None = None, /, **properties: Value) -> Message:
    (message,) = sent(MessageEncoder(standing or ProducerDefaults()).message(b"body", headers, properties))
    assert message.body == b"body"
    return message


@settings(deadline=None)
@given(st.lists(st.integers(1, 20) | st.none(), min_size=1, max_size=10))
def test_ids_are_unique_and_ascend(sizes: list[int | None]) -> None:
    """Whatever is sent alone (None) or together, by two producers side by side."""
    ids: list[list[str]] = []
    for stamp in (MessageEncoder(ProducerDefaults()), MessageEncoder(ProducerDefaults())):
        of_one = []
        for size in sizes:
            payload = stamp.message(b"", {}, None) if size is None else stamp.batch([b"x"] * size)
            of_one += [str(message.id) for message in sent(payload)]
        assert of_one == sorted(of_one)
        assert {len(one) for one in of_one} == {len("ID:") + 32}
        ids.append(of_one)
    assert len({*ids[0], *ids[1]}) == 2 * sum(size or 1 for size in sizes)


TEXT_HEADERS = st.dictionaries(st.sampled_from(["correlation_id", "type", "reply_to", "group"]), st.text(max_size=20))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXT_HEADERS, st.binary(max_size=40), st.booleans(), st.booleans())
def test_the_second_message_with_the_same_string_headers_is_encoded_alike(
    headers: Headers, body: bytes, ids: bool, timestamps: bool
) -> None:
    """The encoder remembers the layout of the first one and takes a shorter path for the second."""
    encoder = MessageEncoder(ProducerDefaults(ids=ids, timestamps=timestamps))
    first, second = (encoder.message(body, headers, None) for _ in range(2))
    # A message that was decoded last is remembered: each is decoded from a copy of its bytes.
    one, other = (decode_single(Payload(bytearray(payload.data), 1, payload.form)) for payload in (first, second))
    assert bytes(one.body) == bytes(other.body) == body
    assert list(one.values) == list(other.values)
    assert {name: one.values[name] for name in headers} == {name: other.values[name] for name in headers} == headers
    assert one.values.get("timestamp") == other.values.get("timestamp")


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("timestamps", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_ids_and_times_can_be_left_out(rows: int, timestamps: bool, ids: bool) -> None:
    stamp = MessageEncoder(ProducerDefaults(ids=ids, timestamps=timestamps))
    payload = stamp.batch([b"%d" % row for row in range(rows)])
    assert column_names(payload) == ("id",) * ids + ("timestamp",) * timestamps
    assert payload.form == (SINGLE if rows == 1 else 0) | (COLUMNS if ids or timestamps else 0)
    messages = sent(payload)
    assert [message.body for message in messages] == [b"%d" % row for row in range(rows)]
    assert all((message.id is not None) is ids for message in messages)
    assert {message.timestamp for message in messages} == {NOW if timestamps else None}


def test_the_time_is_that_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    before = time.time_ns() // 1_000_000
    (one,) = sent(MessageEncoder(ProducerDefaults()).batch([b""]))
    assert one.timestamp is not None
    assert before <= one.timestamp <= time.time_ns() // 1_000_000


def test_headers_arrive() -> None:
    message = said({"correlation_id": "c-1", "reply_to": "queue:replies", "type": "order", "group": "g", "priority": 9})
    assert (message.correlation_id, message.reply_to, message.type) == ("c-1", "queue:replies", "order")
    assert (message.group, message.priority) == ("g", 9)


def test_a_duplicate_id_is_for_the_broker() -> None:
    payload = MessageEncoder(ProducerDefaults()).message(b"", {"duplicate_id": "once"}, None)
    assert decode_single(payload).values["duplicate_id"] == "once"


def test_what_is_none_is_not_said() -> None:
    nothing: Headers = {
        "correlation_id": None, "reply_to": None, "type": None, "group": None, "duplicate_id": None, "priority": None,
        "time_to_live": None, "delay": None,
    }  # fmt: skip
    assert nothing.keys() == Headers.__annotations__.keys()
    payload = MessageEncoder(ProducerDefaults(ids=False, timestamps=False)).message(b"body", nothing, {})
    assert payload == Payload(b"body", 1, SINGLE)


def test_what_goes_without_saying_is_not_sent() -> None:
    payload = MessageEncoder(ProducerDefaults()).message(b"", {"priority": 4, "time_to_live": 0, "delay": 0}, None)
    assert column_names(payload) == ("id", "timestamp")


@pytest.mark.parametrize(
    ("said_of_one", "standing", "expiration", "deliver_at"),
    [
        ({}, ProducerDefaults(), 0, 0),
        ({"time_to_live": 500}, ProducerDefaults(), NOW + 500, 0),
        ({"delay": 500}, ProducerDefaults(), 0, NOW + 500),
        # As in JMS: it lives from the time it is sent on.
        ({"time_to_live": 500, "delay": 70}, ProducerDefaults(), NOW + 500, NOW + 70),
        ({}, ProducerDefaults(time_to_live=500, delay=70), NOW + 500, NOW + 70),
        ({"time_to_live": 0}, ProducerDefaults(time_to_live=500, delay=70), 0, NOW + 70),
        ({"delay": 0}, ProducerDefaults(time_to_live=500, delay=70), NOW + 500, 0),
        ({"time_to_live": None}, ProducerDefaults(time_to_live=500), NOW + 500, 0),
        ({"time_to_live": 2**61, "delay": 2**61}, ProducerDefaults(), NOW + 2**61, NOW + 2**61),
    ],
)
def test_times_become_absolute(
    said_of_one: Headers, standing: ProducerDefaults, expiration: int, deliver_at: int
) -> None:
    message = said(said_of_one, standing)
    assert (message.timestamp, message.expiration, message.deliver_at) == (NOW, expiration, deliver_at)


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_what_a_producer_says_of_all_its_messages(rows: int) -> None:
    stamp = MessageEncoder(ProducerDefaults(priority=7, time_to_live=1_000, delay=10))
    payload = stamp.batch([b"x"] * rows)
    assert payload.form == COLUMNS | (SINGLE if rows == 1 else 0)
    for message in sent(payload):
        assert (message.priority, message.expiration, message.deliver_at) == (7, NOW + 1_000, NOW + 10)
    (other,) = sent(stamp.message(b"", {"priority": 4, "time_to_live": 0, "delay": 0}, None))
    assert (other.priority, other.expiration, other.deliver_at) == (4, 0, 0)


@pytest.mark.parametrize("priority", range(10))
def test_every_priority(priority: int) -> None:
    assert said({"priority": priority}).priority == priority
    assert {
        message.priority for message in sent(MessageEncoder(ProducerDefaults(priority=priority)).batch([b""] * 3))
    } == {priority}


TYPED = [
    (True, pa.bool_()), (False, pa.bool_()), (Byte(-128), pa.int8()), (Byte(127), pa.int8()),
    (Short(-32768), pa.int16()), (Short(32767), pa.int16()), (Int(-(2**31)), pa.int32()), (Int(2**31 - 1), pa.int32()),
    (-(2**63), pa.int64()), (2**63 - 1, pa.int64()), (0, pa.int64()), (Float(0.5), pa.float32()),
    (Float(math.inf), pa.float32()), (Float(-3.4028234663852886e38), pa.float32()), (0.1, pa.float64()),
    (-1e300, pa.float64()), ("", pa.string()), ("grün 名", pa.string()),
]  # fmt: skip


@pytest.mark.parametrize(("value", "kind"), TYPED, ids=repr)
def test_properties_arrive_with_their_types(value: Value, kind: pa.DataType) -> None:
    payload = MessageEncoder(ProducerDefaults()).message(b"", {}, {"p": value})
    found = column(payload, ".p")
    assert found is not None
    assert found.type == kind
    (message,) = sent(payload)
    assert message.properties == {"p": value}
    # As Python's own, whatever the width on the way.
    assert type(message.properties["p"]) in (bool, int, float, str)


def test_what_is_no_number_is_a_value_too() -> None:
    found = said({}, double=math.nan, single=Float(math.nan)).properties
    assert all(isinstance(value, float) and math.isnan(value) for value in (found["double"], found["single"]))


def test_a_float_of_32_bits_is_rounded() -> None:
    assert said({}, p=Float(0.1)).properties["p"] == float(np.float32(0.1))


@pytest.mark.parametrize("name", ["a", "colour", "$cost", "straße", "JMSXUserID", "JMS_Vendor", "jmsType", "nulls"])
def test_names_of_properties(name: str) -> None:
    assert said({}, **{name: 5}).properties == {name: 5}


@pytest.mark.parametrize(
    "name",
    [
        "", "1a", "a b", "a.b", "a,b", "a-b", "x" * 256, "NULL", "null", "True", "FALSE", "not", "And", "OR", "between",
        "LIKE", "in", "IS", "escape", "JMS", "JMSPriority", "JMSa",
    ],
)  # fmt: skip
def test_what_is_no_name_of_a_property(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a property"):
        said({}, **{name: 5})


class Colour(IntEnum):
    RED = 1


@pytest.mark.parametrize(
    "value",
    [b"bytes", None, [1], {"a": 1}, 1j, object(), np.int64(5), np.float64(0.5), Colour.RED],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_type_of_a_property(value: object) -> None:
    with pytest.raises(TypeError, match=f"property p: {type(value).__name__} cannot be a property.*bool, Byte"):
        said({}, p=value)  # type: ignore[arg-type] # the test shows that it is refused


@pytest.mark.parametrize(
    "value",
    [
        Byte(128), Byte(-129), Short(2**15), Short(-(2**15) - 1), Int(2**31), Int(-(2**31) - 1), 2**63, -(2**63) - 1,
        Float(1e39), Float(-1e39),
    ],
    ids=repr,
)  # fmt: skip
def test_numbers_that_do_not_fit(value: Value) -> None:
    with pytest.raises(ValueError, match=r"property p: .* does not fit its type"):
        said({}, p=value)


@pytest.mark.parametrize("properties", [{"p": "\ud800"}, {"p": "fine", "q": "a\udfff"}])
def test_half_a_character_is_no_text(properties: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="is not a text"):
        said({}, **properties)
    with pytest.raises(ValueError, match="is not a text"):
        said({"type": "\ud800"})


@pytest.mark.parametrize(
    ("name", "value"),
    [("priority", value) for value in (-1, 10, 4.0, "4", True, 2**70)]
    + [(name, value) for name in ("time_to_live", "delay") for value in (-1, 0.5, "1s", True, 2**61 + 1, 2**63)],
)
def test_numbers_that_a_message_cannot_have(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name}: .* is not a"):
        said({name: value})  # type: ignore[misc] # the test shows that it is refused
    with pytest.raises(ValueError, match=f"{name}: .* is not a"):
        MessageEncoder(ProducerDefaults(**{name: value}))  # type: ignore[arg-type] # the test shows that it is refused


@pytest.mark.parametrize("name", ["correlation_id", "reply_to", "type", "group", "duplicate_id"])
@pytest.mark.parametrize("value", [5, b"bytes", ["a"]], ids=repr)
def test_texts_are_texts(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"{name}: a text, not {type(value).__name__}"):
        said({name: value})  # type: ignore[misc] # the test shows that it is refused


@pytest.mark.parametrize("name", ["id", "timestamp", "expiration", "deliver_at", "corelation_id", "body"])
def test_what_a_message_does_not_have(name: str) -> None:
    with pytest.raises(TypeError, match=f"no header '{name}'; it has: correlation_id, reply_to"):
        said({name: "x"})  # type: ignore[misc] # the test shows that it is refused


@pytest.mark.parametrize("body", ["text", None, 5])
def test_a_body_is_bytes(body: object) -> None:
    with pytest.raises(TypeError, match="a message body is bytes"):
        MessageEncoder(ProducerDefaults()).message(body, {}, None)  # type: ignore[arg-type] # the test shows that it is refused


@pytest.mark.parametrize("count", [97, 98])
def test_as_many_properties_as_fit_beside_id_and_time(count: int) -> None:
    properties = {f"p{number}": number for number in range(count)}
    assert said({}, **properties).properties == properties


def test_one_property_more_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 100 columns"):
        said({}, **{f"p{number}": number for number in range(99)})


def test_after_an_error_the_producer_goes_on() -> None:
    stamp = MessageEncoder(ProducerDefaults())
    (before,) = sent(stamp.message(b"", {}, None))
    with pytest.raises(ValueError):
        stamp.message(b"", {}, {"NULL": 1})
    (after,) = sent(stamp.message(b"", {}, None))
    assert str(before.id) < str(after.id)


def test_a_body_that_changes_later_is_sent_as_it_was() -> None:
    body = bytearray(b"before")
    payload = MessageEncoder(ProducerDefaults(ids=False, timestamps=False)).message(body, {}, None)
    body[:] = b"after!"
    assert decode(payload).tolist() == [b"before"]


def test_a_batch_has_the_types_of_a_single_message() -> None:
    stamp = MessageEncoder(ProducerDefaults(priority=3, time_to_live=5, delay=5))
    assert decode_batch(stamp.batch([b"a"])).schema == decode_batch(stamp.batch([b"a", b"b"])).schema
