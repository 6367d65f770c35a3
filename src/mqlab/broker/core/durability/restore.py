"""Restoring a core from what recovery read."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from mqlab.broker.core.broker import Core
from mqlab.broker.core.durability.records import Prepare
from mqlab.broker.core.model.messages import Span
from mqlab.json_values import JsonObject


class RestorableQueue(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def next_id(self) -> int: ...

    @property
    def options(self) -> JsonObject: ...

    def spans(self) -> Iterable[Span]: ...


class RestorableState(Protocol):
    """The result of recovery."""

    @property
    def queues(self) -> Mapping[int, RestorableQueue]: ...

    @property
    def remembered(self) -> Mapping[str, Iterable[str]]: ...

    @property
    def prepared(self) -> Mapping[str, Prepare]: ...

    @property
    def last_queue(self) -> int: ...

    @property
    def lsn(self) -> int: ...


def restore(core: Core, recovered: RestorableState) -> None:
    """Restore into a new core. It appends no record: the journal is not open yet."""
    destinations = core.destinations
    destinations.last_number, core.records.lsn = recovered.last_queue, recovered.lsn
    for number, queue in recovered.queues.items():
        destinations.restore_queue(queue.name, number, queue.next_id, queue.spans(), queue.options)
    for destination, ids in recovered.remembered.items():
        destinations.restore_remembered(destination, ids)
    for prepared in recovered.prepared.values():
        core.two_phase_commit.restore(prepared)
