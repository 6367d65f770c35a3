"""Delivery of messages to a consumer that dispatch has chosen, and dispatch in slices."""

from mqlab.broker.core.effects import Continue, deliver
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.queue_consumer import QueueConsumer


def deliver_span(queue: Queue, consumer: QueueConsumer, span: Span) -> None:
    """Deliver messages that are in no list any more."""
    queue.context.effects.append(deliver(consumer, queue.count_delivered(consumer, span), span))


def dispatch_later(queue: Queue) -> None:
    """Go on with dispatch in a later slice."""
    if queue.defer_dispatch():
        queue.context.effects.append(Continue(queue.resume_dispatch))
