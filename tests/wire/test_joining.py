"""Lone messages put together: the batch has what they had, in their order."""

import pytest

from mqlab.client.headers import Byte, Float, Headers, Int, Short, Stamp, Standing
from mqlab.wire.bodies import Payload, check, cut, decode, encode
from mqlab.wire.columns import Value, columns_of, decode_lone
from mqlab.wire.joining import join_lone

BODIES = [b"", b"x", bytes(range(256)) * 8, "größe".encode()]
EVERY_TYPE: dict[str, Value] = {
    "flag": True, "byte": Byte(-1), "short": Short(2), "int": Int(3), "long": 2**62, "float": Float(0.5),
    "double": -1e300, "text": "größe",
}  # fmt: skip
EVERY_HEADER: Headers = {
    "correlation_id": "c", "reply_to": "queue:r", "type": "t", "group": "g", "duplicate_id": "d", "priority": 9,
    "time_to_live": 1000, "delay": 5,
}  # fmt: skip


@pytest.mark.parametrize("properties", [{}, EVERY_TYPE])
@pytest.mark.parametrize("headers", [{}, EVERY_HEADER])
@pytest.mark.parametrize("standing", [Standing(), Standing(ids=False, timestamps=False)])
def test_each_message_is_found_again(standing: Standing, headers: Headers, properties: dict[str, Value]) -> None:
    stamp = Stamp(standing)
    lone = [stamp.message(body, headers, properties) for body in BODIES]
    joined = join_lone(lone)
    check(joined)
    assert joined.rows == len(lone)
    assert decode(joined).tolist() == BODIES
    for row, one in enumerate(lone):
        # A row that is cut out is a lone message again, byte by byte.
        assert _told(cut(joined, range(row, row + 1))) == _told(one)


def test_bodies_alone_become_a_plain_batch() -> None:
    assert join_lone([encode([body]) for body in BODIES]) == encode(BODIES)


def test_messages_with_the_same_columns_can_be_known_by_their_list() -> None:
    stamp = Stamp(Standing())
    plain, told, other = (stamp.message(b"x", {}, more) for more in ({}, {"a": 1}, {"a": 2}))
    lists = [columns_of(one) for one in (plain, told, other)]
    assert lists[1] == lists[2] != lists[0]
    assert columns_of(encode([b"x"])) is None


def _told(payload: Payload) -> tuple[dict[str, object], bytes]:
    lone = decode_lone(payload)
    return lone.values, bytes(lone.body)
