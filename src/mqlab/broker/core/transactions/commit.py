"""The end of a session's transaction: everything in it takes effect, or nothing does."""

from __future__ import annotations

from collections.abc import Callable

from mqlab.broker.core.durability.pending_records import PendingRecords
from mqlab.broker.core.durability.records import Commit
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.core.model.sessions import Producer, Session, Transaction
from mqlab.broker.core.routing.duplicates import Sent, ids_of
from mqlab.broker.core.routing.placement import Ended, Placed, Placing, removes
from mqlab.wire.native.bodies import Payload

# Places the messages of a producer, persistent or not, on every queue they go to.
Place = Callable[[Producer, Payload, bool], Placing]


def end_transaction(session: Session, records: PendingRecords, place: Place) -> Ended:
    """Its messages are where they belong, yet not visible. A new one begins. Raises RefusedError."""
    transaction = session.transaction
    if why := transaction.why_not:
        raise RefusedError(f"the transaction can only be rolled back: {why}")
    sizes = [span.size for _, span in transaction.sends if span.persistent]
    if sizes and (why := records.reason_no_space(sum(sizes), len(sizes))):
        transaction.doomed = why
        raise RefusedError(f"the transaction can only be rolled back: {why}")
    session.transaction = Transaction()
    transaction.settle(session.account)
    placings = [place(producer, span.whole(), span.persistent) for producer, span in transaction.sends]
    for (_, span), placing in zip(transaction.sends, placings, strict=True):
        if span.due:
            # The clock was set back by so much since it was sent.
            for _, delayed in placing.placed:
                delayed.due = max(0, delayed.due + span.due)
    if any(placing.again for placing in placings):
        session.last_lsn = records.last_pending
    puts = tuple(placing.put for placing in placings if placing.put is not None)
    left_out = [remove for placing in placings for remove in placing.left_out]
    sent = [
        Sent(producer.target, ids, span.persistent)
        for (producer, span), placing in zip(transaction.sends, placings, strict=True)
        if placing.fresh is not None and (ids := ids_of(placing.fresh)) is not None
    ]
    record = Commit(puts, (*left_out, *removes(transaction.acknowledged)))
    return Ended([pair for placing in placings for pair in placing.placed], transaction.acknowledged, record, sent)


def drop_transaction(session: Session) -> Placed:
    """Forget its sends; return what it had acknowledged, marked as delivered."""
    session.transaction.settle(session.account)
    returned, session.transaction = session.transaction.acknowledged, Transaction()
    for _, span in returned:
        span.delivered += 1
    return returned
