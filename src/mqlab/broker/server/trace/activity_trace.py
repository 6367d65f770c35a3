"""The activity trace of a broker: who is watched, and how what was seen comes to the queue of the trace."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any, Final, Protocol
from weakref import WeakSet

from mqlab.broker.core.broker import Core
from mqlab.broker.core.model.destination_names import parse
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.routing.placement import place
from mqlab.broker.server.trace.isolation import ObserverErrors, isolated
from mqlab.broker.server.trace.levels import TraceLevels
from mqlab.broker.server.trace.operation_recorder import OperationRecorder
from mqlab.broker.server.trace.recording import TracedConnection
from mqlab.broker.server.trace.records import MOST, WIDTH, RawRecords, encoded
from mqlab.broker.server.trace.stanzas import StanzaError
from mqlab.broker.server.trace.traced_links import TRACE_QUEUE
from mqlab.broker.settings import Level, Settings
from mqlab.wire.native.bodies import SINGLE, Payload

log = logging.getLogger("mqlab.broker")

# Seconds after which fewer records than a message can have will do.
_SECONDS: Final = 0.5
# How often it is looked whether there are enough: more seldom, and more would have to be encoded at once, while
# everybody waits.
_LOOK: Final = 0.05
_FILE_SECONDS: Final = 1.0
# Messages of records that are not encoded yet; beyond, the oldest records are dropped.
_MOST_WAITING: Final = 25
# Bytes of records that wait for somebody to read them; beyond, and beyond this part of all memory for messages, the
# oldest are dropped.
_QUEUE_BYTES: Final = 64 * 1024 * 1024
_MEMORY_SHARE: Final = 8


class Traceable(Protocol):
    """A connection, as far as the trace is concerned."""

    application: str
    operation_recorder: OperationRecorder | None

    def record_with(self, operation_recorder: OperationRecorder | None) -> None: ...

    def traced_connection(self) -> TracedConnection: ...


class ActivityTrace:
    """One for each broker. `run_effects` of the broker follows whatever this puts on the queue."""

    def __init__(
        self, settings: Settings, core: Core, connections: Collection[object], run_effects: Callable[[], None],
        errors: ObserverErrors,
    ) -> None:  # fmt: skip
        self.errors = errors
        self.levels = TraceLevels(settings)
        self.batches = 0
        self.records = 0
        # Messages with records that nobody had read when there was no room any more.
        self.dropped = 0
        self._limit = min(_QUEUE_BYTES, max(1, settings.memory_limit // _MEMORY_SHARE))
        self._core = core
        # All there are, and those whose application is known.
        self._connections = connections
        self._welcomed: WeakSet[Traceable] = WeakSet()
        self._carry_out = run_effects
        self._rows: RawRecords = []
        # Connections that are recorded now.
        self._spies = 0
        self._loop = asyncio.get_running_loop()
        self._next_look: asyncio.TimerHandle | None = None
        self._flushed_at = 0.0
        self._next_stat: asyncio.TimerHandle | None = None

    @isolated
    def welcome(self, connection: Traceable, since: int) -> None:
        """A connection whose application is known; it came at that time."""
        if self._next_stat is None and self.levels.has_file:
            self._look_at_file()
        self._welcomed.add(connection)
        self._apply(connection)
        if connection.operation_recorder is not None:
            connection.operation_recorder.connected(since)

    def set_level(self, level: Level | None, application: str | None) -> None:
        """At run time: a level for one application (or NAME*), or for all that nothing else is said of.

        None takes a level for one application back. Raises StanzaError.
        """
        self.levels.set_level(level, application)
        self._apply_to_all()

    def reload(self) -> None:
        """The stanzas, if their file has changed. Raises StanzaError, and all stays as it was."""
        if self.levels.reload():
            self._apply_to_all()

    def status(self) -> dict[str, Any]:
        queue = self._core.destinations.find(TRACE_QUEUE)
        found: dict[str, int] = {}
        for connection in self._known():
            if connection.operation_recorder is not None:
                key = f"{connection.application}\0{connection.operation_recorder.level}"
                found[key] = found.get(key, 0) + 1
        watched = [(*key.split("\0"), count) for key, count in sorted(found.items())]
        return {
            **self.levels.status(),
            "applications": [
                {"application": name, "level": level, "connections": count} for name, level, count in watched
            ],
            "records": self.records,
            "messages": 0 if queue is None else queue.messages,
            "bytes": 0 if queue is None else queue.size,
            "limit": self._limit,
            "dropped": self.dropped,
            "errors": self.errors.count,
        }

    def flush(self) -> None:
        """All that was seen up to now is on the queue."""
        for _ in self.flush_slices():
            pass

    def flush_slices(self) -> Iterator[None]:
        """The same, one message of records at a time: encoding all of them at once would make everybody wait."""
        for _ in range(math.ceil(len(self._rows) / (MOST * WIDTH))):
            self._put(self._taken())
            self._flushed_at = time.monotonic()
            self._carry_out()
            yield

    def close(self) -> None:
        for timer in (self._next_look, self._next_stat):
            if timer is not None:
                timer.cancel()

    # The parts

    def _apply_to_all(self) -> None:
        for connection in self._known():
            self._apply(connection)

    def _known(self) -> list[Traceable]:
        return [connection for connection in self._welcomed if connection in self._connections]

    def _apply(self, connection: Traceable) -> None:
        level = self.levels.level(connection.application)
        if level == "off":
            if connection.operation_recorder is not None:
                connection.record_with(None)
                self._one_less()
        elif connection.operation_recorder is not None:
            connection.operation_recorder.level = level
        else:
            connection.record_with(
                OperationRecorder(connection.traced_connection(), self._rows, level, self._one_less, self.errors)
            )
            self._spies += 1
            if self._next_look is None:
                self._flushed_at = time.monotonic()
                self._next_look = self._loop.call_later(_LOOK, self._look)

    def _one_less(self) -> None:
        self._spies -= 1

    def _look(self) -> None:
        """As long as anybody is watched. What is encoded at once is little: others wait meanwhile."""
        self._next_look = None
        while len(self._rows) > _MOST_WAITING * MOST * WIDTH:
            # Applications do more than can be encoded while they do it.
            self._taken()
            self.dropped += 1
        enough = len(self._rows) >= MOST * WIDTH
        if enough or (self._rows and time.monotonic() - self._flushed_at >= _SECONDS):
            self._put(self._taken())
            self._flushed_at = time.monotonic()
            self._carry_out()
        if self._rows or self._spies:
            more = len(self._rows) >= MOST * WIDTH
            self._next_look = self._loop.call_later(0 if more else _LOOK, self._look)

    def _taken(self) -> RawRecords:
        """The oldest records, as many as a message can have. Whatever becomes of them, they are not taken again."""
        taken = self._rows[: MOST * WIDTH]
        del self._rows[: MOST * WIDTH]
        return taken

    @isolated
    def _put(self, rows: RawRecords) -> None:
        """One message of these records; the oldest ones go, rather than that anybody waits."""
        queue = self._queue()
        payload = Payload(encoded(rows), 1, SINGLE)
        before = queue.counters.dropped
        self._core.removal.drop_oldest(queue)
        self.dropped += queue.counters.dropped - before
        self.records += len(rows) // WIDTH
        if queue.full or len(payload.data) > self._limit:
            # All of it is with a reader that acknowledges nothing, or this message alone would take too much memory.
            self.dropped += 1
            queue.counters.dropped += 1
            return
        self.batches += 1
        self._core.removal.make_visible(place((queue,), payload, persistent=False, origin="", sender=None).placed)

    def _queue(self) -> Queue:
        queue = self._core.destinations.queue(parse(TRACE_QUEUE)[1], internal=True)
        if queue.policy.queue_limit != self._limit:
            queue.policy = replace(
                queue.policy, queue_limit=self._limit, message_limit=0, when_full="drop-oldest", save_extent=0,
                redelivery_limit=0,
            )  # fmt: skip
        return queue

    def _look_at_file(self) -> None:
        try:
            self.reload()
        except StanzaError as error:
            log.warning("the levels of the trace stay as they are: %s", error)
        except Exception as error:
            self.errors.caught(error)
        self._next_stat = self._loop.call_later(_FILE_SECONDS, self._look_at_file)
