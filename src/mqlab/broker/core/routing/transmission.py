"""Removal from a transmission queue: messages that arrived at the other broker, or that it refused."""

from mqlab.broker.core.broker import Core
from mqlab.broker.core.dispatch.selective import take_ids
from mqlab.broker.core.model.delivery_ids import take_rows
from mqlab.broker.core.model.destination_names import parse
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import CoreConsumer, CoreSession
from mqlab.broker.policy import Policy


def drop_arrived(session: CoreSession, queue: Queue, ranges: list[tuple[int, int]]) -> list[Span]:
    """Acknowledge messages with these ids, as far as no consumer holds them, in the session's transaction."""
    spans = take_ids(queue, ranges)
    session.transaction.acknowledged += [(queue, span) for span in spans]
    return spans


def dead_letter(core: Core, consumer: CoreConsumer, first: int, rows: int) -> None:
    """Move refused deliveries to the dead letter queue, each span in one atomic record."""
    queue = consumer.queue
    spans = take_rows(consumer, first, rows)
    queue.counters.dead += sum(span.rows for span in spans)
    dead_letters = queue.policy.dead_letters or Policy().dead_letters
    core.removal.transfer(queue, spans, core.destinations.queue(parse(dead_letters)[1], internal=True))
