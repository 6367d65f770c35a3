"""Commit and rollback of a session's transaction."""

from collections.abc import Callable

from mqlab.broker.core.durability.pending_records import PendingRecords
from mqlab.broker.core.durability.records import Commit
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.flow import FlowControl
from mqlab.broker.core.model.sessions import CoreProducer, CoreSession, Transaction
from mqlab.broker.core.routing.duplicates import SentIds, ids_of
from mqlab.broker.core.routing.placement import EndedTransaction, Placed, Placement, removal_records
from mqlab.wire.native.bodies import Payload

# Places the messages of a producer, persistent or not, on every queue that they go to.
Place = Callable[[CoreProducer, Payload, bool], Placement]


def end_transaction(session: CoreSession, records: PendingRecords, flow: FlowControl, place: Place) -> EndedTransaction:
    """Place its messages, not visible yet, and begin a new transaction. Raises CommandError."""
    transaction = session.transaction
    if why := transaction.why_not:
        raise CommandError(f"the transaction can only be rolled back: {why}")
    sizes = [span.size for _, span in transaction.sends if span.persistent]
    why = records.reason_no_space(sum(sizes), len(sizes)) if sizes else ""
    if why := why or flow.reason_transaction_full(transaction.sends):
        transaction.doomed = why
        raise CommandError(f"the transaction can only be rolled back: {why}")
    session.transaction = Transaction()
    transaction.settle(session.account)
    placements = [place(producer, span.whole(), span.persistent) for producer, span in transaction.sends]
    for (_, span), placement in zip(transaction.sends, placements, strict=True):
        if span.due:
            # By so much was the clock set back since the send.
            for _, delayed in placement.placed:
                delayed.due = max(0, delayed.due + span.due)
    if any(placement.has_duplicates for placement in placements):
        session.last_lsn = records.last_pending
    puts = tuple(placement.put for placement in placements if placement.put is not None)
    left_out = [remove for placement in placements for remove in placement.left_out]
    sent = [
        SentIds(producer.target, ids, span.persistent)
        for (producer, span), placement in zip(transaction.sends, placements, strict=True)
        if placement.fresh is not None and (ids := ids_of(placement.fresh)) is not None
    ]
    record = Commit(puts, (*left_out, *removal_records(transaction.acknowledged)))
    return EndedTransaction(
        [pair for placement in placements for pair in placement.placed], transaction.acknowledged, record, sent
    )


def drop_transaction(session: CoreSession) -> Placed:
    """Drop its sends; return the messages it had acknowledged, marked as delivered."""
    session.transaction.settle(session.account)
    returned, session.transaction = session.transaction.acknowledged, Transaction()
    for _, span in returned:
        span.delivered += 1
    return returned
