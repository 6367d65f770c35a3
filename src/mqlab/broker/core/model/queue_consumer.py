"""A consumer, and the receives by id that wait, as a queue and its dispatch see them."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mqlab.broker.core.accounts import Account
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.span_list import SpanCursor, SpanList
from mqlab.broker.core.selectors import Selector
from mqlab.wire.native.columns import Value
from mqlab.wire.native.payload import RowFlags


@dataclass(eq=False, repr=False, slots=True)
class QueueConsumer:
    """A consumer, as a queue and its dispatch see it."""

    # Of its connection.
    account: Account
    # How many more messages it may be sent.
    credit: int = 0
    # Its connection cannot take more for now, whatever the credit.
    paused: bool = False
    selector: Selector | None = None
    exclusive: bool = False
    next_delivery: int = 1
    # Receives by id that wait for their message.
    receives: int = 0
    # Delivered, not acknowledged: (first delivery id, span), oldest first.
    unacknowledged: deque[tuple[int, Span]] = field(default_factory=deque)
    # It is in its queue's `ready`.
    waiting: bool = False
    # With a selector: its position in each list of spans, and the selector's flags for the spans ahead.
    cursors: dict[SpanList, SpanCursor] = field(default_factory=dict)
    flags_ahead: dict[Span, RowFlags] = field(default_factory=dict)

    @property
    def is_selective(self) -> bool:
        """It does not take every message, or excludes other consumers."""
        return self.selector is not None or self.exclusive

    @property
    def ready(self) -> bool:
        return self.credit > 0 and not self.paused


class WaitingReceives(Protocol):
    """The receives by id that wait on a queue, and its correlation indexes (`dispatch.receive_by_id`)."""

    def on_entered(self, span: Span) -> None: ...

    def on_replaced(self, span: Span) -> None: ...

    def take_consumer(self, headers: Mapping[str, Value]) -> QueueConsumer | None: ...

    def cancel(self, consumer: QueueConsumer) -> None: ...
