"""Looking at a queue without taking anything from it."""

from __future__ import annotations

from collections import deque

import numpy as np

from mqlab.broker.core.effects import Deliver, Effect, Seen
from mqlab.broker.core.links import Consumer
from mqlab.broker.core.messages import Span
from mqlab.broker.core.queue import Queue
from mqlab.broker.core.selection import chosen
from mqlab.broker.core.selectors import Selector


def on_queue(queue: Queue, selector: Selector | None) -> deque[Span]:
    """Copies of what could be delivered now, best first, as far as a selector chooses it."""
    copies: deque[Span] = deque()
    for span in queue.spans():
        if not queue.drop_expired(span):
            continue
        index = span.index if selector is None else np.asarray(span.index)[chosen(selector, span)]
        if len(index):
            copies.append(span.of_rows(index))
    return copies


def give_room(consumer: Consumer, messages: int, effects: list[Effect]) -> None:
    """For so many messages more: a browser is shown as much as it has room for, and told when it has seen all."""
    ahead = consumer.browsing
    if ahead is None:
        consumer.queue.give_room(consumer, messages)
        return
    consumer.credit += messages
    while ahead and consumer.ready:
        span = ahead[0].take_first(consumer.credit) if ahead[0].rows > consumer.credit else ahead.popleft()
        effects.append(Deliver(consumer, consumer.next_delivery, span))
        consumer.next_delivery += span.rows
        consumer.credit -= span.rows
    if not ahead:
        effects.append(Seen(consumer))
