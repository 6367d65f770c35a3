"""The token of a channel: a message at the receiving broker that names what came last through the channel.

It changes in the same transaction in which messages come, and only one connection can have it in hand. So whoever holds
it knows, after whatever was cut or killed, which messages have arrived.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from mqlab.wire.native.bodies import Buffer, Payload, encode

# Ids on the transmission queue: (first, rows).
IdRanges = list[tuple[int, int]]


class ChannelToken(NamedTuple):
    """`ids`: sorted, none next to another."""

    ids: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> ChannelToken:
        joined: IdRanges = []
        for first, rows in sorted(ranges):
            if joined and first <= sum(joined[-1]):
                begin, before = joined[-1]
                joined[-1] = (begin, max(before, first + rows - begin))
            else:
                joined.append((first, rows))
        return cls(tuple(joined))

    @classmethod
    def read(cls, body: Buffer) -> ChannelToken:
        """Raises ValueError for what no channel wrote."""
        said = json.loads(bytes(body))
        ids = said.get("ids") if isinstance(said, dict) else None
        if not isinstance(ids, list) or not all(_is_range(one) for one in ids):
            raise ValueError("the token of the channel is no token")
        return cls.of((first, rows) for first, rows in ids)

    def payload(self) -> Payload:
        return encode([json.dumps({"ids": self.ids}).encode()])


def _is_range(one: object) -> bool:
    return isinstance(one, list) and len(one) == 2 and all(isinstance(number, int) and number > 0 for number in one)
