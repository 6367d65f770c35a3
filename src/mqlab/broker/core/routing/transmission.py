"""How messages leave a transmission queue: they have arrived over there, or nobody wants them there."""

from __future__ import annotations

from mqlab.broker.core.broker import Core
from mqlab.broker.core.dispatch.selective import take_ids
from mqlab.broker.core.model.delivery_ids import taken_rows
from mqlab.broker.core.model.destination_names import parse
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import Consumer, Session
from mqlab.broker.policy import Policy


def drop_arrived(session: Session, queue: Queue, ranges: list[tuple[int, int]]) -> list[Span]:
    """These ids, as far as nobody has them in hand, are as good as received in the session's transaction."""
    spans = take_ids(queue, ranges)
    session.transaction.acknowledged += [(queue, span) for span in spans]
    return spans


def give_up(core: Core, consumer: Consumer, first: int, rows: int) -> None:
    """These deliveries go to the dead letters, one step each: they are here or there, whatever breaks."""
    queue = consumer.queue
    spans = taken_rows(consumer, first, rows)
    queue.counters.dead += sum(span.rows for span in spans)
    dead_letters = queue.policy.dead_letters or Policy().dead_letters
    core.removal.transfer(queue, spans, core.destinations.queue(parse(dead_letters)[1], internal=True))
