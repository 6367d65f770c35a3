"""Records in columns, and the details of the levels medium and high."""

import json
import random
from collections.abc import Mapping
from contextlib import suppress
from typing import Unpack

import pyarrow as pa
import pytest

from mqlab.broker.server.trace.detail import BODY_BYTES, HIGH, PERSISTENT, RawDetail, detail_prefix, kept_message
from mqlab.broker.server.trace.records import MOST, SCHEMA, BadRecordsError, RawRecords, RecordLabels, decoded, encoded
from mqlab.client.headers import Float, Headers, MessageEncoder, ProducerDefaults
from mqlab.events.schema import TABLES
from mqlab.json_values import JsonObject
from mqlab.wire.native.bodies import COLUMNS, SINGLE, Payload, encode
from mqlab.wire.native.columns import Value, encode_columns

PUT = RecordLabels(7, "Requester0", "put", "queue:a")


def message(body: bytes, properties: Mapping[str, Value] | None = None, **headers: Unpack[Headers]) -> Payload:
    encoder = MessageEncoder(ProducerDefaults(ids=False, timestamps=False))
    return encoder.message(body, headers, properties)


def said(payload: Payload, *, high: bool) -> JsonObject:
    found: JsonObject = json.loads(text(payload, high=high))
    return found


def more(payload: Payload, *, high: bool) -> RawDetail:
    form, remembered = kept_message(payload, high)
    return form | PERSISTENT | HIGH * high, detail_prefix(1, 2), 5, remembered, None


def text(payload: Payload, *, high: bool) -> str:
    found: str = decoded(encoded([PUT, 1, 2, 3, 4, more(payload, high=high)]))["detail"][0].as_py()
    return found


def test_the_columns_are_those_of_the_labs_operations() -> None:
    wanted = [field for field in TABLES["operations"] if field.name != "run"]
    assert [*SCHEMA][:-1] == wanted
    assert SCHEMA.names[-1] == "detail"


def test_what_is_encoded_is_decoded() -> None:
    get = RecordLabels(8, "", "get", "queue:b", "refused: 'ü'")
    rows: RawRecords = [PUT, 1_000, 1_250, 3, 42, None, get, 2_000, 1_999, 0, 0, (0, detail_prefix(1, 2), 9, None, 4)]
    assert decoded(encoded(rows)).to_pylist() == [
        {"application": "Requester0", "connection": 7, "operation": "put", "t": 1_000, "duration": 250,
         "destination": "queue:a", "messages": 3, "bytes": 42, "code": "ok", "detail": ""},
        {"application": "", "connection": 8, "operation": "get", "t": 2_000, "duration": 0,
         "destination": "queue:b", "messages": 0, "bytes": 0, "code": "refused: 'ü'",
         "detail": '{"session":1,"link":2,"first":9,"room":4}'},
    ]  # fmt: skip


@pytest.mark.parametrize("detailed", [False, True])
def test_as_many_as_a_message_can_have(detailed: bool) -> None:
    details = more(message(b"x"), high=True) if detailed else None
    rows: RawRecords = []
    for number in range(MOST):
        rows += (RecordLabels(number, f"App{number}", "put", f"queue:{number}"), number, number + 1, 1, 1, details)
    table = decoded(encoded(rows))
    assert table.schema == SCHEMA
    assert table["connection"].to_pylist() == [*range(MOST)]
    assert table["application"].to_pylist() == [f"App{number}" for number in range(MOST)]


def test_what_is_no_trace_is_refused() -> None:
    good = encoded([PUT, 1, 2, 3, 4, None] * 50)
    other = pa.BufferOutputStream()
    with pa.ipc.new_stream(other, pa.schema([("a", pa.int64())])) as stream:
        stream.write_table(pa.table({"a": [1]}))
    for data in (b"", b"nonsense", good[:100], bytes(other.getvalue())):
        with pytest.raises(BadRecordsError):
            decoded(data)


def test_a_message_that_is_none_is_refused() -> None:
    with pytest.raises(BadRecordsError, match="shorter than its list of columns"):
        decoded(encoded([PUT, 1, 2, 3, 4, (SINGLE | COLUMNS, detail_prefix(1, 2), 1, b"\xff\xff", None)]))


@pytest.mark.parametrize("detailed", [False, True])
def test_whatever_lies_on_the_queue_is_read_or_refused(detailed: bool) -> None:
    details = more(message(b"body", correlation_id="c", properties={"n": 1}), high=True) if detailed else None
    chance, good = random.Random(3), encoded([PUT, 1, 2, 3, 4, details] * 20)
    for _ in range(300):
        data = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with suppress(BadRecordsError):
            assert decoded(bytes(data)).schema == SCHEMA


class TestDetails:
    def test_medium_has_the_ids(self) -> None:
        payload = message(b"secret", correlation_id='a"b\n', reply_to="queue:r")
        assert said(payload, high=False) == {
            "session": 1, "link": 2, "first": 5, "persistent": True, "correlation_id": 'a"b\n',
        }  # fmt: skip

    def test_high_has_headers_properties_and_the_beginning(self) -> None:
        properties: dict[str, Value] = {"colour": "red", "half": Float(0.5), "big": float("inf"), "yes": True, "n": -1}
        payload = message(b"x" * 100, correlation_id="c", priority=7, properties=properties)
        found = said(payload, high=True)
        assert (found["correlation_id"], found["priority"], found["body"]) == ("c", 7, "x" * BODY_BYTES)
        assert found["properties"] == {"colour": "red", "half": 0.5, "big": "inf", "yes": True, "n": -1}

    @pytest.mark.parametrize(
        ("body", "shown"),
        [
            (b"", {"body": ""}),
            (b"\x00\x1b[31m\n", {"body": "\x00\x1b[31m\n"}),
            ("Zürich".encode(), {"body": "Zürich"}),
            (b"\xff\x00", {"body_hex": "ff00"}),
            # Cut in the middle of a character.
            (b"x" * 63 + "ü".encode(), {"body_hex": (b"x" * 63).hex() + "c3"}),
        ],
    )
    def test_a_body_is_text_where_it_is_text(self, body: bytes, shown: dict[str, str]) -> None:
        assert said(message(body), high=True).items() >= shown.items()

    def test_the_text_itself_is_plain_ascii_on_one_line(self) -> None:
        found = text(message("\n\x1bü".encode(), type="\u2028"), high=True)
        assert found.isascii()
        assert found.isprintable()

    def test_of_a_batch_the_first_message_is_shown(self) -> None:
        plain = encode([b"one", b"two"])
        columns = {"correlation_id": pa.array(["c1", None]), ".n": pa.array([None, 7], pa.int64())}
        with_columns = encode_columns(pa.array([b"one", b"two"], pa.binary()), columns)
        assert said(plain, high=True)["body"] == "one"
        found = said(with_columns, high=True)
        assert (found["body"], found["correlation_id"], "properties" in found) == ("one", "c1", False)

    @pytest.mark.parametrize("rows", [1, 2])
    def test_of_a_large_payload_only_the_beginning_is_kept(self, rows: int) -> None:
        large = encode([b"y" * 100_000] * rows)
        assert kept_message(large, high=True) == (SINGLE, b"y" * BODY_BYTES)
        assert kept_message(large, high=False) == (SINGLE, b"")
        assert said(large, high=True)["body"] == "y" * BODY_BYTES

    def test_what_else_is_said_by_name(self) -> None:
        found = decoded(encoded([PUT, 1, 2, 3, 4, (0, detail_prefix(1, 2), 1, None, {"ask": 'a"b', "n": 1.5})]))
        assert json.loads(found["detail"][0].as_py()) == {"session": 1, "link": 2, "first": 1, "ask": 'a"b', "n": 1.5}

    def test_a_message_is_shown_as_its_level_wants_it(self) -> None:
        payload = message(b"b", correlation_id="c")
        low, high = (more(payload, high=level) for level in (False, True))
        found = decoded(encoded([PUT, 1, 2, 3, 4, low, PUT, 1, 2, 3, 4, high, PUT, 1, 2, 3, 4, None]))
        details = [json.loads(one or "{}") for one in found["detail"].to_pylist()]
        assert [one.get("body") for one in details] == [None, "b", None]
