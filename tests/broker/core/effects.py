"""The effects of the core, taken one by one: each must be what the model allows at that moment."""

from __future__ import annotations

from mqlab.broker.core.effects import Answer, Append, BrowseEnded, Credit, Deliver, Opened
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import CoreConsumer, CoreProducer, CoreSession
from mqlab.wire.native.bodies import decode

from .model_parts import DELIVERED, VISIBLE, ConsumerModel, Entry
from .reference_model import Model


def take_effects(model: Model) -> None:
    model.read_records()
    _settle(model)
    effects = [*model.core.effects]
    model.core.effects.clear()
    for effect in effects:
        if isinstance(effect, Deliver):
            _delivered(model, effect)
        elif isinstance(effect, Credit):
            producer = next((one for one in model.producers if one.producer is effect.producer), None)
            assert producer is not None, "credit for a closed producer"
            producer.credit += effect.size
        elif isinstance(effect, Answer):
            model.given[(Answer, *effect[:2])] += 1
        elif not isinstance(effect, Append | Opened | BrowseEnded):
            model.given[(type(effect), *effect)] += 1
    assert model.given == model.owed
    model.appended.clear()
    model.command += 1


def browsed(model: Model, consumer: object) -> list[bytes]:
    """What a browser that was just opened was shown."""
    shown = [one for one in model.core.effects if isinstance(one, Deliver) and one.consumer is consumer]
    model.core.effects[:] = [one for one in model.core.effects if one not in shown]
    return [body for one in shown for body in decode(one.span.encoded()).tolist()]


def _settle(model: Model) -> None:
    """Steps whose record is durable take effect, in the order of their records."""
    ready = sorted((one for one in model.steps if one.lsn <= model.durable), key=lambda one: one.lsn)
    model.steps = [one for one in model.steps if one.lsn > model.durable]
    for step in ready:
        for entry in step.appear:
            model.appear(entry)
        for entry in step.vanish:
            model.entries.remove(entry)
        for entry in step.come_back:
            model.come_back(entry, 1)
            # Others may have become visible, and been delivered, with a record before.
            entry.returned = 0
        if step.answer is not None and _is_awaited(model, step.answer):
            model.owed[step.answer] += 1


def _is_awaited(model: Model, answer: tuple[object, ...]) -> bool:
    of = answer[1]
    if isinstance(of, Model):
        return True
    if not isinstance(of, CoreSession):
        assert isinstance(of, CoreProducer | CoreConsumer)
        of = of.session
    return model.of(of).open


def _delivered(model: Model, effect: Deliver) -> None:
    consumer = next((one for one in model.consumers if one.consumer is effect.consumer), None)
    assert consumer is not None, "a delivery to a closed consumer"
    bodies = decode(effect.span.encoded()).tolist()
    assert effect.first_delivery == consumer.next_delivery
    if consumer.keyed:
        assert len(bodies) == 1
    else:
        assert not consumer.paused, "a delivery to a consumer that cannot take it"
        assert len(bodies) <= consumer.credit, "more than there is room for"
        consumer.credit -= len(bodies)
    for body in bodies:
        entry = _entry(model, consumer.consumer.queue, body)
        assert entry.state == VISIBLE, f"delivered while {entry.state}"
        assert not model.is_late(entry), "delivered late"
        assert entry.delivered == effect.span.delivered, "the number of deliveries is wrong"
        if consumer.keyed:
            _check_key(model, consumer, entry)
        else:
            assert consumer.accepts(entry), "its selector does not choose this message"
            assert not _better(model, consumer, entry), "another message should have come first"
        entry.state = DELIVERED
        consumer.has.append((consumer.next_delivery, entry))
        consumer.next_delivery += 1


def _entry(model: Model, queue: Queue, body: bytes) -> Entry:
    found = [entry for entry in model.entries if entry.queue is queue and entry.body == body]
    assert len(found) == 1, f"{len(found)} messages of that body should be on this queue"
    return found[0]


def _check_key(model: Model, consumer: ConsumerModel, entry: Entry) -> None:
    key = entry.about.key
    assert key is not None, "a message without that id"
    waiting = [one for one in model.consumers if one.consumer.queue is entry.queue and key in one.waits_for]
    assert consumer in waiting, "nobody asked for this message"
    consumer.waits_for.remove(key)
    others = [
        one for one in model.entries
        if one.queue is entry.queue and one.state == VISIBLE and one.about.key == key and one.since < model.command
    ]  # fmt: skip
    if entry.since < model.command:
        scanned = entry.queue.policy.retrieval == "scan"
        first = min(others, key=lambda one: one.place if scanned else (0, one.id))
        assert first is entry, "another message with that id should have come first"


def _better(model: Model, consumer: ConsumerModel, entry: Entry) -> list[Entry]:
    """Those that should have been delivered instead."""
    found = []
    for other in model.entries:
        if other.queue is not entry.queue or other.state != VISIBLE or not consumer.accepts(other):
            continue
        was_there = other.since < model.command or other.returned == model.command
        together = other.payload is not None and other.payload is entry.payload
        # But one that had a delay, that came back with another record, or whose transaction was decided later, was
        # not there before the other.
        is_new = not other.due and not other.delivered and other.xid in ("", entry.xid)
        of_its_producer = is_new and other.producer is not None and other.producer is entry.producer
        if (other.priority > entry.priority and (was_there or together)) or (
            other.priority == entry.priority and other.id < entry.id and (was_there or of_its_producer)
        ):
            found.append(other)
    return found
