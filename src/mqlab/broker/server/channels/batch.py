"""What goes through a channel together: deliveries from the transmission queue, as the sends they become."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from mqlab.broker.core.model.messages import Span
from mqlab.broker.server.channels.token import IdRanges
from mqlab.wire.native.bodies import SINGLE, Payload
from mqlab.wire.native.coalescing import column_list, join_singles


class HeldDelivery(NamedTuple):
    """Messages of the transmission queue that the channel has in hand, and the delivery id of the first."""

    first: int
    span: Span


class ChannelSend(NamedTuple):
    target: str
    payload: Payload
    persistent: bool


class ChannelBatch:
    def __init__(self, given: list[HeldDelivery]) -> None:
        self.given = given
        self.rows = sum(span.rows for _, span in given)
        self.size = sum(span.size for _, span in given)

    @property
    def persistent(self) -> bool:
        """Some of it is."""
        return any(span.persistent for _, span in self.given)

    @cached_property
    def ranges(self) -> IdRanges:
        return [one for _, span in self.given for one in span.ranges()]

    @property
    def targets(self) -> list[str]:
        """ "" stands for messages that somebody put on the transmission queue itself."""
        return [*dict.fromkeys(span.origin for _, span in self.given)]

    def by_target(self) -> list[ChannelBatch]:
        return [ChannelBatch([one for one in self.given if one.span.origin == target]) for target in self.targets]

    def sends(self) -> Iterator[ChannelSend]:
        """In order. Single messages that are alike go as one: the other broker has the less to do."""
        spans = [span for _, span in self.given]
        for (target, persistent), alike in groupby(spans, key=lambda span: (span.origin, span.persistent)):
            for columns, payloads in groupby((span.encoded() for span in alike), key=_columns):
                for payload in _joined([*payloads], single=columns is not None):
                    yield ChannelSend(target, payload, persistent)


def _columns(payload: Payload) -> bytes | None:
    """Of a single message; None for a batch of messages."""
    return column_list(payload) if payload.form & SINGLE else None


def _joined(payloads: list[Payload], *, single: bool) -> list[Payload]:
    return [join_singles(payloads)] if single and len(payloads) > 1 else payloads
