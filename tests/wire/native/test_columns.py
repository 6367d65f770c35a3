"""Headers and properties are encoded and decoded with their types, whole or in part."""

import math
import struct
from collections.abc import Callable
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.wire.native.bodies import (
    COLUMNS,
    SINGLE,
    Buffer,
    MalformedPayloadError,
    Payload,
    decode,
    select_rows,
    validate,
)
from mqlab.wire.native.columns import (
    HEADERS,
    Value,
    column,
    column_names,
    decode_batch,
    decode_single,
    encode_batch,
    encode_columns,
    encode_single,
    has_column,
    is_property_name,
)
from table_rows import Row
from wire.message_tables import ARROW, EVERY_TYPE, Table, rows_of, tables


def read(payload: Payload) -> list[Row]:
    """As a broker and a client do: nothing is read that was not checked."""
    validate(payload)
    rows = rows_of(payload)
    assert decode(payload).tolist() == [row["body"] for row in rows]
    return rows


@settings(deadline=None)
@given(tables())
def test_a_batch_comes_back(table: Table) -> None:
    payload = table.payload()
    assert (payload.rows, payload.form) == (len(table.rows), COLUMNS if table.letters else 0)
    assert read(payload) == table.rows
    assert decode_batch(payload).schema.types == [pa.binary(), *(ARROW[letter] for letter in table.letters.values())]
    assert column_names(payload) == tuple(table.letters)


@settings(deadline=None)
@given(tables(most_rows=1))
def test_a_single_message_comes_back(table: Table) -> None:
    payload, (row,) = table.single(0), table.rows
    values = {name: value for name, value in row.items() if name != "body"}
    assert (payload.rows, payload.form) == (1, SINGLE | COLUMNS if values else SINGLE)
    message = decode_single(payload)
    assert (message.values, bytes(message.body)) == (values, row["body"])
    assert read(payload) == [row]


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_the_bytes_may_lie_in_any_buffer(make: Callable[[Buffer], Buffer]) -> None:
    for payload, rows in ((EVERY_TYPE.payload(), EVERY_TYPE.rows), (EVERY_TYPE.single(2), EVERY_TYPE.rows[2:])):
        assert read(Payload(make(payload.data), payload.rows, payload.form)) == rows


def test_a_single_message_and_a_batch_have_the_same_types() -> None:
    single, batch = decode_batch(EVERY_TYPE.single(2)), decode_batch(EVERY_TYPE.payload())
    assert single.schema == batch.schema
    assert single.equals(batch.slice(2, 1))


LIMITS: dict[str, list[object]] = {
    "?": [False, True],
    "b": [-(2**7), 2**7 - 1],
    "h": [-(2**15), 2**15 - 1],
    "i": [-(2**31), 2**31 - 1],
    "q": [-(2**63), 2**63 - 1],
    "f": [0.0, -math.inf, math.inf, 1.401298464324817e-45, 3.4028234663852886e38],
    "d": [-math.inf, math.inf, 5e-324, 1.7976931348623157e308],
    "s": ["", "a" * 100_000, "\0", "\U0010ffff", "e\u0301", "a\nb"],
}


@pytest.mark.parametrize("letter", LIMITS)
def test_values_at_the_limits_of_their_type_come_back(letter: str) -> None:
    table = Table({".p": letter}, [{"body": b"", ".p": value} for value in LIMITS[letter]])
    assert read(table.payload()) == table.rows
    assert [read(table.single(row)) for row in range(len(table.rows))] == [[row] for row in table.rows]


def test_what_is_no_number_stays_none() -> None:
    table = Table({".f": "f", ".d": "d"}, [{"body": b"", ".f": math.nan, ".d": math.nan}] * 2)
    for payload in (table.payload(), table.single(0)):
        validate(payload)
        found = rows_of(payload)[0]
        assert math.isnan(found[".f"])
        assert math.isnan(found[".d"])


@settings(deadline=None)
@given(tables(), st.data())
def test_any_rows_can_be_cut_out(table: Table, data: st.DataObject) -> None:
    chosen = sorted(data.draw(st.sets(st.integers(0, len(table.rows) - 1), min_size=1), label="rows"))
    payload = table.payload()
    for index in (np.array(chosen), range(chosen[0], chosen[-1] + 1)):
        part, expected = select_rows(payload, index), [table.rows[row] for row in index]
        assert part.rows == len(expected)
        assert read(part) == expected


@settings(deadline=None)
@given(tables())
def test_every_split_in_two_gives_all_rows(table: Table) -> None:
    payload, rows = table.payload(), len(table.rows)
    for at in range(1, rows):
        assert read(select_rows(payload, range(at))) + read(select_rows(payload, range(at, rows))) == table.rows


@settings(deadline=None)
@given(tables())
def test_a_row_alone_becomes_a_single_message_with_the_same_values(table: Table) -> None:
    payload = table.payload()
    for at, row in enumerate(table.rows if len(table.rows) > 1 else ()):
        for index in (range(at, at + 1), np.array([at])):
            part = select_rows(payload, index)
            assert part == table.single(at)
            assert decode_single(part).values == {name: value for name, value in row.items() if name != "body"}


@settings(deadline=None)
@given(tables(), st.data())
def test_a_cut_of_a_cut_is_a_cut(table: Table, data: st.DataObject) -> None:
    rows, payload = list(table.rows), table.payload()
    while len(rows) > 2:
        chosen = sorted(data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=2, max_size=len(rows) - 1)))
        rows, payload = [rows[row] for row in chosen], select_rows(payload, np.array(chosen))
        assert read(payload) == rows


def test_a_cut_does_not_carry_what_was_cut_off() -> None:
    rows = 1_000
    texts = pa.array(["t" * 1_000] * rows)
    payload = encode_columns(pa.array([b"x" * 1_000] * rows, pa.binary()), {"type": texts, ".text": texts})
    for index in (range(500, 502), np.array([3, 700])):
        assert len(select_rows(payload, index).data) < 8_000
    assert len(select_rows(payload, range(500, 501)).data) < 3_100


def test_all_rows_are_the_payload_itself() -> None:
    payload = EVERY_TYPE.payload()
    assert select_rows(payload, range(3)) is payload


def test_one_column_of_a_batch_or_of_a_single_message() -> None:
    for payload, texts, flags in (
        (EVERY_TYPE.payload(), ["grün", None, "c"], [True, None, False]),
        (EVERY_TYPE.single(2), ["c"], [False]),
    ):
        for name, values in (("correlation_id", texts), (".known", flags)):
            found = column(payload, name)
            assert found is not None
            assert found.to_pylist() == values
        assert has_column(payload, ".known")
    for nothing in (encode_columns(pa.array([b"a", b"b"], pa.binary()), {}), encode_single(b"a", (), "", ())):
        assert column(nothing, "correlation_id") is None
        assert not has_column(nothing, "correlation_id")
        assert column_names(nothing) == ()
    # A property is not a header of the same name.
    assert column(EVERY_TYPE.payload(), "known") is None


@pytest.mark.parametrize("count", [0, 1, 99, 100])
def test_so_many_columns_are_allowed(count: int) -> None:
    letters = {f".p{number}": "bqsd"[number % 4] for number in range(count)}
    values = {"b": 1, "q": 2, "s": "three", "d": 4.0}
    row = {"body": b"x"} | {name: values[letter] for name, letter in letters.items()}
    table = Table(letters, [row, {"body": b"y"}])
    assert read(table.payload()) == table.rows
    assert read(table.single(0)) == [row]


def test_one_column_more_is_not_allowed() -> None:
    letters = {f".p{number}": "b" for number in range(101)}
    table = Table(letters, [{"body": b"x"} | dict.fromkeys(letters, 1)] * 2)
    for encode in (table.payload, lambda: table.single(0)):
        with pytest.raises(MalformedPayloadError, match="100"):
            encode()


def test_the_longest_names_fit_a_hundred_times() -> None:
    names = [f".n{number:0>3}" + "é" * 125 + "x" for number in range(100)]
    assert {len(name[1:].encode()) for name in names} == {255}
    table = Table(dict.fromkeys(names, "s"), [{"body": b"x"} | dict.fromkeys(names, "text")] * 2)
    assert read(table.payload()) == table.rows
    assert read(table.single(0)) == table.rows[:1]


@pytest.mark.parametrize("name", ["a", "_", "$", "$a$", "a1", "straße", "名前", "Ω", "x" * 255, "é" * 127])
def test_names_of_properties(name: str) -> None:
    assert is_property_name(name)
    table = Table({"." + name: "i"}, [{"body": b"x", "." + name: 5}] * 2)
    assert read(table.payload()) == table.rows
    assert read(table.single(0)) == table.rows[:1]


@pytest.mark.parametrize("name", ["", "1a", "a b", "a.b", "a,b", "\0", "a\n", "\ud800", "x" * 256, "é" * 128, "'"])
def test_what_is_no_name_of_a_property(name: str) -> None:
    assert not is_property_name(name)


def test_how_a_single_message_is_written() -> None:
    """Other clients rely on it."""
    said = b"uid,scorrelation_id,bpriority,s.colour,d.weight"
    values: list[Value] = [bytes(range(16)), "c-1", 7, "grün", 2.5]
    payload = encode_single(b"body", ("id", "correlation_id", "priority", ".colour", ".weight"), "usbsd", values)
    fixed = bytes(range(16)) + struct.pack("<IbId", 3, 7, 5, 2.5)
    assert payload.data == struct.pack("<H", len(said)) + said + fixed + b"c-1" + "grün".encode() + b"body"


def test_how_a_batch_is_written() -> None:
    """Other clients rely on it: after the list, at the next step of 8 bytes, there is a record batch."""
    payload = encode_columns(pa.array([b"a", b"b"], pa.binary()), {".n": pa.array([1, 2], pa.int16())})
    data = bytes(payload.data)
    assert data[:8] == struct.pack("<H", 3) + b"h.n" + b"\0\0\0"
    schema = pa.schema([("body", pa.binary()), (".n", pa.int16())])
    batch = pa.ipc.read_record_batch(pa.py_buffer(data[8:]), schema)
    assert batch.to_pylist() == [{"body": b"a", ".n": 1}, {"body": b"b", ".n": 2}]


def test_every_header_has_its_type() -> None:
    """Stored messages and other clients rely on it."""
    assert HEADERS == {
        "id": "u", "timestamp": "q", "correlation_id": "s", "reply_to": "s", "type": "s", "priority": "b",
        "expiration": "q", "deliver_at": "q", "group": "s", "duplicate_id": "s",
    }  # fmt: skip


@settings(deadline=None)
@given(
    st.lists(st.binary(max_size=30), min_size=2, max_size=40)
    | st.tuples(st.binary(max_size=30), st.integers(2, 40)).map(lambda equal: [equal[0]] * equal[1]),
    st.lists(st.sampled_from([name for name, letter in HEADERS.items() if letter != "s"]), unique=True),
    st.randoms(use_true_random=False),
)
def test_batches_with_headers_of_fixed_size_are_as_arrow_writes_them(
    bodies: list[bytes], names: list[str], chance: Random
) -> None:
    sizes = {"u": 16, "q": 8, "b": 1}
    values = {name: [chance.randbytes(sizes[HEADERS[name]]) for _ in bodies] for name in names}
    columns = {
        name: pa.array(np.frombuffer(b"".join(column), dtype={"q": "<i8", "b": "i1"}[HEADERS[name]]))
        if HEADERS[name] != "u" else pa.array(column, pa.binary(16))
        for name, column in values.items()
    }  # fmt: skip
    data, rows, form = encode_columns(pa.array(bodies, pa.binary()), columns)
    joined = {name: b"".join(column) for name, column in values.items()}
    assert encode_batch(bodies, joined) == Payload(bytes(data), rows, form)
