"""Payloads: bodies are encoded and decoded, whole or in part."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.wire.native.bodies import (
    SINGLE,
    MalformedPayloadError,
    Payload,
    as_body,
    decode,
    encode,
    encode_equal,
    select_rows,
    validate,
)

bodies = st.lists(st.binary(max_size=30), min_size=1, max_size=12)


def read(payload: Payload) -> list[bytes]:
    validate(payload)
    return decode(payload).tolist()


def form_of(rows: int) -> int:
    return SINGLE if rows == 1 else 0


@settings(deadline=None)
@given(bodies)
def test_bodies_come_back(sent: list[bytes]) -> None:
    payload = encode(sent)
    assert payload.rows == len(sent)
    assert payload.form == form_of(len(sent))
    came = decode(payload)
    assert [came[row] for row in range(len(came))] == came.tolist() == sent
    assert came.nbytes == sum(map(len, sent))


@pytest.mark.parametrize("sent", [[b""], [b"", b""], [b"", b"x", b""], [b"x" * 100_000, b""], [b"\x00" * 12] * 4096])
def test_empty_and_unequal_bodies_come_back(sent: list[bytes]) -> None:
    assert read(encode(sent)) == sent


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_a_body_may_be_any_buffer(make: type) -> None:
    assert read(encode([make(b"one")])) == [b"one"]
    assert read(encode([make(b"one"), make(b"two")])) == [b"one", b"two"]


@pytest.mark.parametrize(("rows", "size"), [(1, 12), (2, 12), (4096, 12), (256, 1024), (3, 0), (1, 0)])
def test_equal_bodies_are_the_rows_of_a_matrix(rows: int, size: int) -> None:
    data = np.arange(rows * size, dtype=np.uint32).astype(np.uint8)
    payload = encode_equal(data, rows)
    assert (payload.rows, payload.form) == (rows, form_of(rows))
    expected = data.reshape(rows, size)
    assert read(payload) == [row.tobytes() for row in expected]
    table = decode(payload).table()
    assert table is not None
    assert np.array_equal(table, expected)


@settings(deadline=None)
@given(bodies)
def test_a_matrix_is_given_only_if_all_bodies_have_one_size(sent: list[bytes]) -> None:
    table = decode(encode(sent)).table()
    if len({len(body) for body in sent}) == 1:
        assert table is not None
        assert [row.tobytes() for row in table] == sent
    else:
        assert table is None


@settings(deadline=None)
@given(bodies)
def test_every_cut_equals_a_slice(sent: list[bytes]) -> None:
    payload = encode(sent)
    for start in range(len(sent)):
        for stop in range(start + 1, len(sent) + 1):
            part = select_rows(payload, range(start, stop))
            assert (part.rows, part.form) == (stop - start, form_of(stop - start))
            assert read(part) == sent[start:stop]


@settings(deadline=None)
@given(bodies, st.data())
def test_any_rows_can_be_cut_out(sent: list[bytes], data: st.DataObject) -> None:
    rows = sorted(data.draw(st.sets(st.integers(0, len(sent) - 1), min_size=1), label="rows"))
    for kind in (np.int64, np.int32):
        part = select_rows(encode(sent), np.array(rows, dtype=kind))
        assert (part.rows, part.form) == (len(rows), form_of(len(rows)))
        assert read(part) == [sent[row] for row in rows]


def test_a_cut_of_a_cut_equals_a_slice_of_a_slice() -> None:
    sent = [b"%d" % n * n for n in range(30)]
    part = select_rows(select_rows(encode(sent), range(5, 25)), range(3, 13))
    assert read(part) == sent[8:18]
    assert read(select_rows(part, np.array([0, 2, 9]))) == [sent[8], sent[10], sent[17]]
    table = decode(select_rows(encode([b"abcd", b"efgh", b"ijkl", b"mnop"]), range(1, 3))).table()
    assert table is not None
    assert table.tobytes() == b"efghijkl"


def test_all_rows_are_the_payload_itself() -> None:
    payload = encode([b"a", b"b"])
    assert select_rows(payload, range(2)) is payload
    assert select_rows(payload, np.arange(2)) is payload


@pytest.mark.parametrize("rows", [range(50, 52), np.array([3, 70])], ids=["range", "array"])
def test_a_cut_does_not_carry_the_bodies_that_were_cut_off(rows: "range | np.ndarray") -> None:
    payload = encode([b"x" * 10_000] * 100)
    assert len(select_rows(payload, rows).data) < 25_000


@pytest.mark.parametrize("rows", [0, 2, -1])
def test_a_single_message_is_one_message(rows: int) -> None:
    with pytest.raises(MalformedPayloadError):
        validate(Payload(b"body", rows, SINGLE))


@pytest.mark.parametrize("said", [0, 1, 2, 4, 2**32 - 1])
def test_the_frame_and_the_batch_must_agree_on_the_rows(said: int) -> None:
    with pytest.raises(MalformedPayloadError):
        validate(Payload(encode([b"a", b"b", b"c"]).data, said, 0))


def test_a_body_is_copied_unless_nobody_can_change_it() -> None:
    fixed, changing = b"fixed", bytearray(b"before")
    assert as_body(fixed) is fixed
    body = as_body(changing)
    view = as_body(memoryview(changing)[2:])
    changing[:] = b"after!"
    assert (body, view) == (b"before", b"fore")


@pytest.mark.parametrize("body", ["text", 5, None, [1, 2]])
def test_only_bytes_are_a_body(body: object) -> None:
    with pytest.raises(TypeError, match=type(body).__name__):
        as_body(body)  # type: ignore[arg-type] # the test shows that it is refused
