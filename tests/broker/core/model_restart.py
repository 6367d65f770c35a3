"""A restart of core and model: all that the journal holds comes back, and nothing else."""

from __future__ import annotations

from mqlab.broker.core.broker import Core

from .model_parts import DELAYED, LEAVING, PENDING, VISIBLE, Entry
from .reference_model import Model


def restart(model: Model) -> None:
    """Everything is durable, nobody is connected; a new core begins with what the records come to."""
    core = Core(model.core.settings)
    core.tick(model.now)
    model.journal.restore(core)
    assert not core.effects, "a broker that starts says nothing before its journal begins"
    placed = [one for prepared in model.prepared.values() for one in prepared.placed]
    removed = [one for prepared in model.prepared.values() for one in prepared.removed]
    model.core = core
    model.sessions, model.producers, model.consumers = [], [], []
    model.owed.clear()
    model.given.clear()
    model.entries = [one for one in model.entries if _comes_back(one, placed)]
    for prepared in model.prepared.values():
        prepared.placed = [one for one in prepared.placed if one in model.entries]
        prepared.removed = [one for one in prepared.removed if one in model.entries]
    for entry in model.entries:
        entry.queue = core.destinations.numbered[entry.queue.number]
        entry.producer = entry.payload = None
        if entry in placed:
            entry.state = PENDING
        else:
            # Nobody knows whether somebody saw it.
            entry.delivered = entry.doubtful = 1
            later = DELAYED if entry.due > model.now else VISIBLE
            entry.state = LEAVING if entry in removed else later
            entry.since = model.command
    model.next_ids = {queue: model.journal.next_ids[number] for number, queue in core.destinations.numbered.items()}
    # What expired meanwhile leaves with the first look at the clock.
    model.tick(0)


def _comes_back(entry: Entry, placed: list[Entry]) -> bool:
    if entry in placed:
        return entry.persistent and entry.queue.stored and not entry.queue.closed
    return entry.kept
