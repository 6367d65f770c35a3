"""Joining the sends of an open transaction: a commit of a few batches takes less time than one of many messages."""

from itertools import groupby
from typing import Final

from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.sessions import CoreProducer, CoreSession
from mqlab.broker.core.refusal import must_stay_single
from mqlab.wire.native.coalescing import column_list, join_singles
from mqlab.wire.native.payload import SINGLE

Send = tuple[CoreProducer, Span]
# Sends that are joined together, and the bytes of a message above which a copy costs more than it saves.
JOINED_SENDS: Final = 64
_MOST_BYTES: Final = 4096


def join_last(session: CoreSession) -> None:
    """Join the last sends, if there are enough of them."""
    transaction = session.transaction
    if len(transaction.sends) < JOINED_SENDS or len(transaction.sends) % JOINED_SENDS:
        return
    last = transaction.sends[-JOINED_SENDS:]
    made = joined(last)
    less = sum(span.memory for _, span in last) - sum(span.memory for _, span in made)
    transaction.sends[-JOINED_SENDS:] = made
    transaction.charged -= less
    session.account.release(less)


def joined(sends: list[Send]) -> list[Send]:
    """The same messages in the same order, with consecutive single messages of one producer as one batch."""
    made: list[Send] = []
    for key, run in groupby(sends, _alike):
        alike = [*run]
        if key is None or len(alike) == 1:
            made += alike
        else:
            producer, persistent, _ = key
            made.append((producer, Span(join_singles([span.whole() for _, span in alike]), 0, persistent)))
    return made


def _alike(send: Send) -> tuple[CoreProducer, bool, bytes] | None:
    """The values that single messages of one batch share; None: this send cannot be joined."""
    producer, span = send
    payload = span.whole()
    # `due` is set: the clock was set back since the send.
    if not payload.form & SINGLE or span.size > _MOST_BYTES or span.due or must_stay_single(producer.destination):
        return None
    return producer, span.persistent, column_list(payload)
