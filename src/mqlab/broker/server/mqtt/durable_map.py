"""A map whose entries are persistent messages on a queue of the broker, so the journal keeps them."""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from mqlab.broker import limits
from mqlab.broker.core.effects import Confirm, Credit, Deliver, Opened
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.destination_names import QUEUE
from mqlab.broker.server.channels.host import ChannelHost
from mqlab.broker.server.mqtt.messages import Fields, encode_message
from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.coalescing import split_batch
from mqlab.wire.native.columns import PROPERTY, decode_single

log: Final = logging.getLogger("mqlab.broker")

_KEY: Final = f"{PROPERTY}mqtt_key"
_REMOVED: Final = f"{PROPERTY}mqtt_removed"

# Bytes of an entry beside its key and value: it is a message on a queue.
_ENTRY_BYTES: Final = 1024

Then = Callable[[], None]


class Entry:
    """The value of a key. `deliveries`: the ids of its messages, the last of which counts."""

    __slots__ = ("body", "deliveries", "fields", "is_removed", "size")

    def __init__(self) -> None:
        self.body = b""
        # Any: see Fields
        self.fields: dict[str, Any] = {}
        self.deliveries: list[int] = []
        self.is_removed = False
        self.size = 0


class DurableMap:
    """It holds all messages of its queue unacknowledged, and acknowledges those that a later one replaces.

    A put is a message, a removal is a message that says so; both are durable when `then` is called.
    """

    def __init__(self, broker: ChannelHost, short: str) -> None:
        self._broker, self._core = broker, broker.core
        self._entries: dict[str, Entry] = {}
        self.size = 0
        self._credit = 0
        self._next = 1
        # Messages that wait for credit, and the callbacks of those that are sent.
        self._unsent: deque[Payload] = deque()
        self._thens: deque[tuple[int, Then | None]] = deque()
        self._persistent = broker.core.destinations.has_store
        # The messages from before a restart are being delivered.
        self._is_loading = True
        broker.core.destinations.queue(short, internal=True)
        session = self._core.open_session(self, 1, transacted=False)
        self._producer = self._core.open_producer(session, 1, f"{QUEUE}:{short}")
        self._consumer = self._core.open_consumer(session, 2, f"{QUEUE}:{short}", limits.PREFETCH)
        broker.run_effects()
        self._is_loading = False

    @property
    def charged_bytes(self) -> int:
        """Memory of the entries, with what the broker needs for each."""
        return self.size + _ENTRY_BYTES * len(self._entries)

    def __len__(self) -> int:
        return sum(not entry.is_removed for entry in self._entries.values())

    def items(self) -> Iterator[tuple[str, Entry]]:
        return iter([(key, entry) for key, entry in self._entries.items() if not entry.is_removed])

    def get(self, key: str) -> Entry | None:
        entry = self._entries.get(key)
        return None if entry is None or entry.is_removed else entry

    def put(self, key: str, body: bytes, fields: Fields | None = None, then: Then | None = None) -> None:
        self._set(key, body, fields or {}, is_removed=False)
        self._send(encode_message(body, {**(fields or {}), _KEY: key}), then)

    def remove(self, key: str, then: Then | None = None) -> None:
        if key not in self._entries:
            if then is not None:
                then()
            return
        self._set(key, b"", {}, is_removed=True)
        self._send(encode_message(b"", {_KEY: key, _REMOVED: True}), then)

    def _set(self, key: str, body: bytes, fields: Fields, *, is_removed: bool) -> None:
        entry = self._entries.setdefault(key, Entry())
        size = 0 if is_removed else len(key) + len(body) + sum(len(str(value)) for value in fields.values())
        self.size += size - entry.size
        entry.body, entry.fields, entry.is_removed, entry.size = body, fields, is_removed, size

    def _send(self, payload: Payload, then: Then | None) -> None:
        self._unsent.append(payload)
        self._thens.append((self._next, then))
        self._next += 1
        self._broker.update_clock()
        self._send_ready()
        self._broker.run_effects()

    def _send_ready(self) -> None:
        while self._unsent and self._credit > 0:
            payload = self._unsent.popleft()
            self._credit -= len(payload.data)
            number = self._next - 1 - len(self._unsent)
            try:
                self._core.send(self._producer, payload, number, persistent=self._persistent, confirm=True)
            except CommandError as error:
                # Nothing is acknowledged that is not durable: the client sends again.
                log.warning("the state of MQTT cannot be stored: %s", error)
                self._thens = deque(entry for entry in self._thens if entry[0] != number)

    # Effects

    def opened(self, _effect: Opened) -> None:
        """Nothing waits for this answer."""

    def credit(self, effect: Credit) -> None:
        self._credit += effect.size
        self._send_ready()

    def confirm(self, effect: Confirm) -> None:
        while self._thens and self._thens[0][0] <= effect.seq:
            _, then = self._thens.popleft()
            if then is not None:
                then()

    def deliver(self, effect: Deliver) -> None:
        """A message of this map, now or from before a restart; others cannot be read, and are dropped."""
        payload = effect.span.encoded()
        singles = [payload] if payload.rows == 1 else split_batch(payload)
        for number, single in enumerate(singles, effect.first_delivery):
            self._delivered(number, single)
        self._core.acknowledge(self._consumer, 0, len(singles))

    def _delivered(self, number: int, single: Payload) -> None:
        message = decode_single(single)
        fields = dict(message.values)
        key, is_removed = fields.pop(_KEY, None), bool(fields.pop(_REMOVED, False))
        if not isinstance(key, str):
            self._core.acknowledge_rows(self._consumer, number, 1)
            return
        if self._is_loading:
            # The last message of a key counts.
            self._set(key, bytes(message.body), fields, is_removed=is_removed)
        elif key not in self._entries:
            self._entries[key] = Entry()
            self._entries[key].is_removed = True
        entry = self._entries[key]
        for former in entry.deliveries:
            self._core.acknowledge_rows(self._consumer, former, 1)
        entry.deliveries = [number]
        if is_removed and entry.is_removed:
            self._core.acknowledge_rows(self._consumer, number, 1)
            del self._entries[key]
