"""The token of a channel: a message at the receiving broker that names the last messages that the channel moved.

Each batch replaces the token in its own transaction, and only one connection at a time can receive it. So the channel
learns from it which messages have arrived, after any crash or lost connection.
"""

import json
from collections.abc import Iterable
from typing import NamedTuple

from mqlab.wire.native.bodies import Buffer, Payload, encode

# Ids on the transmission queue: (first, rows).
IdRanges = list[tuple[int, int]]


class ChannelToken(NamedTuple):
    """`ids`: sorted ranges that do not touch each other."""

    ids: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> "ChannelToken":
        joined: IdRanges = []
        for first, rows in sorted(ranges):
            if joined and first <= sum(joined[-1]):
                begin, before = joined[-1]
                joined[-1] = (begin, max(before, first + rows - begin))
            else:
                joined.append((first, rows))
        return cls(tuple(joined))

    @classmethod
    def read(cls, body: Buffer) -> "ChannelToken":
        """Raises ValueError if no channel wrote this body."""
        document = json.loads(bytes(body))
        ids = document.get("ids") if isinstance(document, dict) else None
        if not isinstance(ids, list) or not all(map(_is_range, ids)):
            raise ValueError("the message is not a channel token")
        return cls.of((first, rows) for first, rows in ids)

    def payload(self) -> Payload:
        return encode([json.dumps({"ids": self.ids}).encode()])


def _is_range(pair: object) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(number, int) and number > 0 for number in pair)
