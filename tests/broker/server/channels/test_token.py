"""The token of a channel, and batches as sends."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.broker.core.model.messages import Span
from mqlab.broker.server.channels.batch import ChannelBatch, HeldDelivery
from mqlab.broker.server.channels.token import ChannelToken
from mqlab.wire.native.bodies import SINGLE, Payload, decode, encode
from mqlab.wire.native.columns import encode_single

Ranges = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 9)), max_size=8)


def ids(ranges: "list[tuple[int, int]]") -> set[int]:
    return {one for first, rows in ranges for one in range(first, first + rows)}


@given(Ranges)
def test_a_token_names_what_it_was_made_of_and_nothing_else(named: list[tuple[int, int]]) -> None:
    token = ChannelToken.of(named)
    assert ids([*token.ids]) == ids(named)
    # As few ranges as can be, and the same after its way through the other broker.
    assert all(one[0] + one[1] < two[0] for one, two in zip(token.ids, token.ids[1:], strict=False))
    assert ChannelToken.read(token.payload().data) == token


@pytest.mark.parametrize(
    "said", [b"", b"no", b"[]", b"{}", b'{"ids": 1}', b'{"ids": [[1]]}', b'{"ids": [[1, "2"]]}', b'{"ids": [[0, 1]]}',
             b"\xff"]
)  # fmt: skip
def test_what_is_no_token(said: bytes) -> None:
    with pytest.raises(ValueError):
        ChannelToken.read(said)


def test_ids_are_whole_numbers_however_large() -> None:
    token = ChannelToken.of([(1_800_000_000_000 << 20, 5)])
    assert json.loads(bytes(token.payload().data)) == {"ids": [[1_800_000_000_000 << 20, 5]]}


def span(payload: Payload, base: int, target: str = "queue:q@B", persistent: bool = True) -> HeldDelivery:
    return HeldDelivery(base, Span(payload, base, persistent=persistent, origin=target))


def test_single_messages_that_are_alike_go_as_one() -> None:
    def headed(body: bytes) -> Payload:
        return encode_single(body, ("type",), "s", ["t"])

    given = [
        span(encode([b"1"]), 1), span(encode([b"2"]), 2), span(headed(b"3"), 3), span(headed(b"4"), 4),
        span(encode([b"5", b"6"]), 5), span(encode([b"7"]), 7), span(encode([b"8"]), 8, persistent=False),
        span(encode([b"9"]), 9, "queue:r@B", persistent=False),
    ]  # fmt: skip
    batch = ChannelBatch(given)
    sends = [*batch.sends()]
    assert [decode(one.payload).tolist() for one in sends] == [
        [b"1", b"2"], [b"3", b"4"], [b"5", b"6"], [b"7"], [b"8"], [b"9"],
    ]  # fmt: skip
    assert [one.persistent for one in sends] == [True] * 4 + [False] * 2
    assert [one.target for one in sends] == ["queue:q@B"] * 5 + ["queue:r@B"]
    assert sends[3].payload.form & SINGLE
    assert (batch.rows, batch.persistent, ChannelToken.of(batch.ranges).ids) == (9, True, ((1, 9),))
    parts = batch.by_target()
    assert [(part.targets, part.rows, part.persistent) for part in parts] == [
        (["queue:q@B"], 8, True), (["queue:r@B"], 1, False),
    ]  # fmt: skip
