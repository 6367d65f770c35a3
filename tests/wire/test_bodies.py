"""Payloads: bodies in, the same bodies out, whole or in parts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.wire.bodies import MalformedPayloadError, Payload, check, cut, decode, encode, encode_equal

bodies = st.lists(st.binary(max_size=30), min_size=1, max_size=12)


def read(payload: Payload) -> list[bytes]:
    check(payload)
    return decode(payload).tolist()


@settings(deadline=None)
@given(bodies)
def test_bodies_come_back(sent: list[bytes]) -> None:
    payload = encode(sent)
    assert payload.rows == len(sent)
    assert payload.lone is (len(sent) == 1)
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
    assert (payload.rows, payload.lone) == (rows, rows == 1)
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
        for rows in range(1, len(sent) - start + 1):
            part = cut(payload, start, rows)
            assert (part.rows, part.lone) == (rows, rows == 1)
            assert read(part) == sent[start : start + rows]


def test_a_cut_of_a_cut_equals_a_slice_of_a_slice() -> None:
    sent = [b"%d" % n * n for n in range(30)]
    part = cut(cut(encode(sent), 5, 20), 3, 10)
    assert read(part) == sent[8:18]
    table = decode(cut(encode([b"abcd", b"efgh", b"ijkl", b"mnop"]), 1, 2)).table()
    assert table is not None
    assert table.tobytes() == b"efghijkl"


def test_a_cut_does_not_carry_the_bodies_that_were_cut_off() -> None:
    payload = encode([b"x" * 10_000] * 100)
    assert len(cut(payload, 50, 2).data) < 25_000


@pytest.mark.parametrize("rows", [0, 2, -1])
def test_a_lone_message_is_one_message(rows: int) -> None:
    with pytest.raises(MalformedPayloadError):
        check(Payload(b"body", rows, True))


@pytest.mark.parametrize("said", [0, 1, 2, 4, 2**32 - 1])
def test_the_frame_and_the_batch_must_agree_on_the_rows(said: int) -> None:
    with pytest.raises(MalformedPayloadError):
        check(Payload(encode([b"a", b"b", b"c"]).data, said, False))
