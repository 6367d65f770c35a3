"""What holds between two commands: core, model and journal agree on every message."""

from __future__ import annotations

from collections.abc import Iterable

from mqlab.broker.core.model.queue import Queue, Topic
from mqlab.broker.core.model.queue_usage import RELEASE_SHARE

from .model_parts import ACKNOWLEDGED, DELAYED, DELIVERED, LEAVING, PENDING, VISIBLE, Entry, ProducerModel
from .reference_model import Model

# Where messages are moved to: their sizes depend on which of them are moved together.
MOVED_TO = ("queue:dead-letters", "queue:late")


def check(model: Model) -> None:
    queues = [*model.core.destinations.all_queues()]
    for queue in queues:
        _check_places(model, queue)
        _check_size(model, queue)
        _check_nobody_waits(model, queue)
    _check_links(model)
    moved = sum(queue.in_memory for queue in queues if queue.full_name in MOVED_TO)
    rest = sum(entry.memory for entry in model.entries if entry.queue.full_name not in MOVED_TO)
    in_transactions = sum(span.memory for session in model.core.sessions for _, span in session.transaction.sends)
    assert model.core.context.memory == moved + rest + in_transactions + model.core.destinations.accounts.opened
    assert model.core.destinations.accounts.bytes == in_transactions
    for producer in model.producers:
        _check_held(model, producer)
    assert model.core.flow.held.keys() <= {producer.producer for producer in model.producers}
    _check_journal(model)


def _check_places(model: Model, queue: Queue) -> None:
    """Every message is where the model has it, and nowhere else; what is visible stands in its order."""
    mine = [entry for entry in model.entries if entry.queue is queue]
    visible = sorted(_in(mine, VISIBLE), key=lambda one: one.place)
    assert model.bodies.of(queue.spans()) == [entry.body for entry in visible]
    assert sorted(model.bodies.of(queue._delayed)) == sorted(entry.body for entry in _in(mine, DELAYED))
    given = [span for consumer in queue.consumers for _, span in consumer.unacknowledged]
    assert sorted(model.bodies.of(given)) == sorted(entry.body for entry in _in(mine, DELIVERED))
    assert sorted(model.bodies.of(queue.hidden)) == sorted(
        entry.body for entry in _in(mine, PENDING) if entry.persistent and queue.stored
    )


def _check_size(model: Model, queue: Queue) -> None:
    mine = [entry for entry in model.entries if entry.queue is queue]
    assert queue.messages == len(mine)
    if queue.full_name not in MOVED_TO:
        assert queue.size == sum(entry.size for entry in mine)
        assert queue.in_memory == sum(entry.memory for entry in mine)


def _check_nobody_waits(model: Model, queue: Queue) -> None:
    visible = [entry for entry in model.entries if entry.queue is queue and entry.state == VISIBLE]
    for consumer in model.consumers:
        if consumer.consumer.queue is not queue:
            continue
        assert consumer.consumer.credit == consumer.credit
        wanted = [one for one in visible if one.about.key in consumer.waits_for]
        assert not wanted, "somebody waits for just this message, and it is there"
        if consumer.credit > 0 and not consumer.paused:
            wanted = [one for one in visible if consumer.accepts(one)]
            assert not wanted, "there is a message, and a consumer with room, and nothing happens"


def _check_links(model: Model) -> None:
    for consumer in model.consumers:
        given = [
            (first + row, body)
            for first, span in consumer.consumer.unacknowledged
            for row, body in enumerate(model.bodies.of([span]))
        ]
        assert given == [(delivery, entry.body) for delivery, entry in consumer.has]
    for session in model.sessions:
        taken = [span for _, span in session.session.transaction.acknowledged]
        assert model.bodies.of(taken) == [entry.body for entry in session.acknowledged]
        assert all(entry.state == ACKNOWLEDGED for entry in session.acknowledged)
    assert {*model.core.two_phase_commit.waiting} == {*model.prepared}
    for xid, prepared in model.prepared.items():
        waiting = model.core.two_phase_commit.waiting[xid]
        assert sorted(model.bodies.of(span for _, span in waiting.placed)) == sorted(
            one.body for one in prepared.placed
        )
        assert sorted(model.bodies.of(span for _, span in waiting.removed)) == sorted(
            one.body for one in prepared.removed
        )
        assert all(entry.state == LEAVING for entry in prepared.removed)


def _check_held(model: Model, producer: ProducerModel) -> None:
    link, limit = producer.producer, model.core.settings.memory_limit
    assert producer.credit == link.window - link.spent
    if link in model.core.flow.held:
        # It may have been full for a moment of the last command only; then everybody waits until it is well below.
        broker_full = model.core.flow.short and model.core.context.memory > limit * RELEASE_SHARE
        assert any(queue.full for queue in _queues(link.destination)) or broker_full, "held back for no reason"
    else:
        waits = any(entry.producer is link for step in model.steps for entry in step.appear)
        waits = waits or any(step.answer is not None and step.answer[1] is link for step in model.steps)
        assert producer.credit > 0 or waits, "neither credit nor held back: it would wait for ever"


def _check_journal(model: Model) -> None:
    """Its records come to just what must be found after a restart."""
    found = {(queue, id_): kept.body for (queue, id_), kept in model.journal.messages.items()}
    assert found == {(entry.queue.number, entry.id): entry.body for entry in model.entries if entry.kept}
    assert {*model.journal.names} == {*model.core.destinations.numbered}
    assert model.journal.prepared == {xid: one.said for xid, one in model.prepared.items()}


def _in(entries: Iterable[Entry], state: str) -> list[Entry]:
    return [entry for entry in entries if entry.state == state]


def _queues(destination: Queue | Topic) -> list[Queue]:
    return destination.subscriptions if isinstance(destination, Topic) else [destination]
