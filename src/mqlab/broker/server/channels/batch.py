"""A batch of a channel: deliveries from the transmission queue, and the sends that they become."""

from collections.abc import Iterator
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from mqlab.broker.core.model.messages import Span
from mqlab.broker.server.channels.token import IdRanges
from mqlab.wire.native.bodies import SINGLE, Payload
from mqlab.wire.native.coalescing import column_list, join_singles


class HeldDelivery(NamedTuple):
    """An unacknowledged delivery from the transmission queue; `first` is its first delivery id."""

    first: int
    span: Span


class ChannelSend(NamedTuple):
    target: str
    payload: Payload
    persistent: bool


class ChannelBatch:
    def __init__(self, held: list[HeldDelivery]) -> None:
        self.held = held
        self.rows = sum(span.rows for _, span in held)
        self.size = sum(span.size for _, span in held)

    @property
    def persistent(self) -> bool:
        """Whether any message is persistent."""
        return any(span.persistent for _, span in self.held)

    @cached_property
    def ranges(self) -> IdRanges:
        return [ids for _, span in self.held for ids in span.ranges()]

    @property
    def targets(self) -> list[str]:
        """The destinations. "" stands for messages that a client sent to the transmission queue itself."""
        return [*dict.fromkeys(span.origin for _, span in self.held)]

    def by_target(self) -> "list[ChannelBatch]":
        held = self.held
        return [ChannelBatch([one for one in held if one.span.origin == target]) for target in self.targets]

    def sends(self) -> Iterator[ChannelSend]:
        """The sends, in order. Single messages with the same columns become one batch, which costs less."""
        spans = [span for _, span in self.held]
        for (target, persistent), spans_alike in groupby(spans, key=lambda span: (span.origin, span.persistent)):
            for columns, payloads in groupby((span.encoded() for span in spans_alike), key=_columns):
                for payload in _joined([*payloads], single=columns is not None):
                    yield ChannelSend(target, payload, persistent)


def _columns(payload: Payload) -> bytes | None:
    """The columns of a single message; None for a batch."""
    return column_list(payload) if payload.form & SINGLE else None


def _joined(payloads: list[Payload], *, single: bool) -> list[Payload]:
    return [join_singles(payloads)] if single and len(payloads) > 1 else payloads
