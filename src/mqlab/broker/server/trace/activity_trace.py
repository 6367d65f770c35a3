"""The activity trace of a broker: which connections are recorded, and how records get to the trace queue."""

import asyncio
import logging
import math
import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Final, Protocol
from weakref import WeakSet

from mqlab.broker.core.broker import Core
from mqlab.broker.core.model.destination_names import parse
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.routing.placement import place
from mqlab.broker.server.trace.isolation import ObserverErrors, isolated
from mqlab.broker.server.trace.operation_recorder import OperationRecorder
from mqlab.broker.server.trace.recording import TracedConnection
from mqlab.broker.server.trace.records import MOST, WIDTH, RawRecords, encoded
from mqlab.broker.server.trace.stanzas import Stanza, StanzaError, check_application, level_of, read_stanzas
from mqlab.broker.server.trace.traced_links import TRACE_QUEUE
from mqlab.broker.settings import Level, Settings
from mqlab.json_values import JsonObject
from mqlab.wire.native.bodies import SINGLE, Payload

log = logging.getLogger("mqlab.broker")

# Seconds after which an incomplete message of records is written.
_FLUSH_SECONDS: Final = 0.5
# How often the trace checks for enough records. A longer pause would mean more records to encode in one turn.
_CHECK_SECONDS: Final = 0.05
_FILE_CHECK_SECONDS: Final = 1.0
# Messages of records that may wait to be encoded; above, the oldest records are dropped.
_MOST_WAITING: Final = 100
# Bytes on the trace queue, and the part of the memory limit that it may take; above, the oldest records are dropped.
_QUEUE_BYTES: Final = 64 * 1024 * 1024
_MEMORY_SHARE: Final = 8
# Levels that can be set at run time; more belong into a file.
_MOST_OVERRIDES: Final = 1_000


class TraceLevels:
    """The level of each application: set at run time, by a stanza of the file, or the default. Raises StanzaError."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.trace_file
        self._stamp = self._file_stamp()
        self._stanzas = () if self._path is None else read_stanzas(self._path)
        self._default: Level = settings.trace
        # Levels set at run time, by name; the last one first.
        self._overrides: dict[str, Level] = {}

    @property
    def has_file(self) -> bool:
        return self._path is not None

    def level(self, application: str) -> Level:
        overrides = (Stanza(name, level) for name, level in self._overrides.items())
        return level_of((*overrides, *self._stanzas), application, self._default)

    def set_level(self, level: Level | None, application: str | None) -> None:
        if application is None:
            if level is None:
                raise StanzaError("name a level, or an application")
            self._default = level
            return
        check_application(application)
        rest = {name: other for name, other in self._overrides.items() if name != application}
        if level is not None and len(rest) >= _MOST_OVERRIDES:
            raise StanzaError(f"levels of {_MOST_OVERRIDES} applications are set already; write the others into a file")
        self._overrides = rest if level is None else {application: level, **rest}

    def reload(self) -> bool:
        """Return whether the file has changed. A bad file raises StanzaError once, until it changes again."""
        stamp = self._file_stamp()
        if self._path is None or stamp == self._stamp:
            return False
        self._stamp = stamp
        self._stanzas = read_stanzas(self._path)
        return True

    def status(self) -> JsonObject:
        return {
            "level": self._default,
            "said": [{"application": name, "level": level} for name, level in self._overrides.items()],
            "file": None if self._path is None else str(self._path),
            "stanzas": [{"application": stanza.name, "level": stanza.level} for stanza in self._stanzas],
        }

    def _file_stamp(self) -> tuple[int, ...]:
        """Changes whenever the file changes."""
        if self._path is None:
            return ()
        try:
            stat = os.stat(self._path)
        except OSError:
            return (0,)
        return stat.st_mtime_ns, stat.st_size, stat.st_ino


class Traceable(Protocol):
    """A connection, as the trace sees it."""

    application: str
    operation_recorder: OperationRecorder | None

    def record_with(self, operation_recorder: OperationRecorder | None) -> None: ...

    def traced_connection(self) -> TracedConnection: ...


class ActivityTrace:
    """One for each broker. It calls `run_effects` of the broker when it has put records on the queue."""

    def __init__(
        self, settings: Settings, core: Core, connections: Collection[object], run_effects: Callable[[], None],
        errors: ObserverErrors,
    ) -> None:  # fmt: skip
        self.errors = errors
        self.levels = TraceLevels(settings)
        self.batches = 0
        self.records = 0
        # Messages of records that were dropped because the queue was full.
        self.dropped = 0
        self._limit = min(_QUEUE_BYTES, max(1, settings.memory_limit // _MEMORY_SHARE))
        self._core = core
        # All connections, and those that have logged in.
        self._connections = connections
        self._logged_in: WeakSet[Traceable] = WeakSet()
        self._carry_out = run_effects
        self._records_waiting: RawRecords = []
        # Connections that are recorded now.
        self._recorders = 0
        self._loop = asyncio.get_running_loop()
        self._check_timer: asyncio.TimerHandle | None = None
        self._flushed_at = 0.0
        self._file_timer: asyncio.TimerHandle | None = None

    @isolated
    def logged_in(self, connection: Traceable, since: int) -> None:
        """A connection has logged in; `since` is when it connected (ns since 1970)."""
        if self._file_timer is None and self.levels.has_file:
            self._check_file()
        self._logged_in.add(connection)
        self._apply(connection)
        if connection.operation_recorder is not None:
            connection.operation_recorder.connected(since)

    def set_level(self, level: Level | None, application: str | None) -> None:
        """Set the level of an application (or NAME*) at run time, or the default level if `application` is None.

        Level None removes the level of an application. Raises StanzaError.
        """
        self.levels.set_level(level, application)
        self._apply_to_all()

    def reload(self) -> None:
        """Read the stanzas if their file has changed. Raises StanzaError, and changes nothing then."""
        if self.levels.reload():
            self._apply_to_all()

    def status(self) -> JsonObject:
        queue = self._core.destinations.find(TRACE_QUEUE)
        counts: dict[str, int] = {}
        for connection in self._known():
            if connection.operation_recorder is not None:
                key = f"{connection.application}\0{connection.operation_recorder.level}"
                counts[key] = counts.get(key, 0) + 1
        recorded = [(*key.split("\0"), count) for key, count in sorted(counts.items())]
        return {
            **self.levels.status(),
            "applications": [
                {"application": name, "level": level, "connections": count} for name, level, count in recorded
            ],
            "records": self.records,
            "messages": 0 if queue is None else queue.messages,
            "bytes": 0 if queue is None else queue.size,
            "limit": self._limit,
            "dropped": self.dropped,
            "errors": self.errors.count,
        }

    def flush(self) -> None:
        """Put all records on the queue."""
        for _ in self.flush_slices():
            pass

    def flush_slices(self) -> Iterator[None]:
        """The same in slices of one message of records."""
        for _ in range(math.ceil(len(self._records_waiting) / (MOST * WIDTH))):
            self._put(self._take())
            self._flushed_at = time.monotonic()
            self._carry_out()
            yield

    def close(self) -> None:
        for timer in (self._check_timer, self._file_timer):
            if timer is not None:
                timer.cancel()

    # Details

    def _apply_to_all(self) -> None:
        for connection in self._known():
            self._apply(connection)

    def _known(self) -> list[Traceable]:
        return [connection for connection in self._logged_in if connection in self._connections]

    def _apply(self, connection: Traceable) -> None:
        level = self.levels.level(connection.application)
        if level == "off":
            if connection.operation_recorder is not None:
                connection.record_with(None)
                self._recorder_ended()
        elif connection.operation_recorder is not None:
            connection.operation_recorder.level = level
        else:
            connection.record_with(
                OperationRecorder(
                    connection.traced_connection(), self._records_waiting, level, self._recorder_ended, self.errors
                )
            )
            self._recorders += 1
            if self._check_timer is None:
                self._flushed_at = time.monotonic()
                self._check_timer = self._loop.call_later(_CHECK_SECONDS, self._check)

    def _recorder_ended(self) -> None:
        self._recorders -= 1

    def _check(self) -> None:
        """Runs while a connection is recorded. It encodes one message of records at most, since clients wait."""
        self._check_timer = None
        while len(self._records_waiting) > _MOST_WAITING * MOST * WIDTH:
            # The applications are faster than the encoder.
            self._take()
            self.dropped += 1
        enough = len(self._records_waiting) >= MOST * WIDTH
        if enough or (self._records_waiting and time.monotonic() - self._flushed_at >= _FLUSH_SECONDS):
            self._put(self._take())
            self._flushed_at = time.monotonic()
            self._carry_out()
        if self._records_waiting or self._recorders:
            more = len(self._records_waiting) >= MOST * WIDTH
            self._check_timer = self._loop.call_later(0 if more else _CHECK_SECONDS, self._check)

    def _take(self) -> RawRecords:
        """Remove and return the oldest records, as many as a message can have."""
        taken = self._records_waiting[: MOST * WIDTH]
        del self._records_waiting[: MOST * WIDTH]
        return taken

    @isolated
    def _put(self, rows: RawRecords) -> None:
        """Put one message of these records on the queue; drop the oldest messages to make room."""
        queue = self._queue()
        payload = Payload(encoded(rows), 1, SINGLE)
        before = queue.counters.dropped
        self._core.removal.drop_oldest(queue)
        self.dropped += queue.counters.dropped - before
        self.records += len(rows) // WIDTH
        if queue.full or len(payload.data) > self._limit:
            # A reader holds all messages without acknowledging, or this message alone is above the limit.
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

    def _check_file(self) -> None:
        try:
            self.reload()
        except StanzaError as error:
            log.warning("the trace keeps its levels: %s", error)
        except Exception as error:
            self.errors.caught(error)
        self._file_timer = self._loop.call_later(_FILE_CHECK_SECONDS, self._check_file)
