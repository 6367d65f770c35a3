"""A core as the journal left it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from mqlab.broker.core.broker import Core
from mqlab.broker.core.durability.records import Prepare
from mqlab.broker.core.model.messages import Span


class FoundQueue(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def next_id(self) -> int: ...

    @property
    def options(self) -> dict[str, Any]: ...

    def spans(self) -> Iterable[Span]: ...


class Found(Protocol):
    """What recovery has found."""

    @property
    def queues(self) -> Mapping[int, FoundQueue]: ...

    @property
    def remembered(self) -> Mapping[str, Iterable[str]]: ...

    @property
    def prepared(self) -> Mapping[str, Prepare]: ...

    @property
    def last_queue(self) -> int: ...

    @property
    def lsn(self) -> int: ...


def restore(core: Core, found: Found) -> None:
    """Into a new core. It appends nothing: the journal has not begun yet."""
    destinations = core.destinations
    destinations.last_number, core.records.lsn = found.last_queue, found.lsn
    for number, queue in found.queues.items():
        destinations.restore_queue(queue.name, number, queue.next_id, queue.spans(), queue.options)
    for destination, ids in found.remembered.items():
        destinations.restore_remembered(destination, ids)
    for prepared in found.prepared.values():
        core.two_phase_commit.restore(prepared)
