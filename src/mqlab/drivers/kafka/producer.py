"""A producer on Kafka's C library (librdkafka), which sends a batch from where it lies in memory.

The library is the one that confluent-kafka bundles. Its Python producer creates several objects for every message,
which costs five times as much as sending it.
"""

import ctypes
import weakref
from collections.abc import Callable, Mapping
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from typing import Final

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError, cimpl

from mqlab.drivers.api import DriverError, Matrix, Texts

_PRODUCER: Final = 0
# The library copies bodies and keys, so the caller may reuse them after the call.
_COPY: Final = 2
_QUEUED_AND_IN_FLIGHT: Final = 1 | 2
_DELIVERY, _ERROR = 0x1, 0x8
# The arguments of rd_kafka_producev: pairs of one of these and its values.
_END, _TOPIC, _PARTITION, _VALUE, _KEY, _FLAGS, _HEADER = 0, 2, 3, 4, 5, 7, 9
# The library chooses the partition by the key.
PARTITION_OF_KEY: Final = -1
_ERROR_TEXT_BYTES: Final = 512


class _Message(ctypes.Structure):
    """rd_kafka_message_t."""

    _fields_ = (
        ("error", c_int), ("topic", c_void_p), ("partition", c_int32), ("body", c_void_p), ("size", c_size_t),
        ("key", c_void_p), ("key_size", c_size_t), ("offset", c_int64), ("own", c_void_p),
    )  # fmt: skip


_MESSAGE: Final = np.dtype(_Message)
# The library calls this with an event in its own thread.
_Listener: Final = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)

# Rows of rd_kafka_message_t.
Messages = npt.NDArray[np.void]


def _library() -> ctypes.CDLL:
    """Load the library through the module of confluent-kafka that is linked to it."""
    library = ctypes.CDLL(cimpl.__file__)
    for name, result, *arguments in (
        ("conf_new", c_void_p),
        ("conf_set", c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t),
        ("conf_set_events", None, c_void_p, c_int),
        ("conf_set_background_event_cb", None, c_void_p, _Listener),
        ("new", c_void_p, c_int, c_void_p, c_char_p, c_size_t),
        ("destroy", None, c_void_p),
        ("queue_get_main", c_void_p, c_void_p),
        ("queue_get_background", c_void_p, c_void_p),
        ("queue_forward", None, c_void_p, c_void_p),
        ("queue_destroy", None, c_void_p),
        ("event_type", c_int, c_void_p),
        ("event_error", c_int, c_void_p),
        ("event_error_string", c_char_p, c_void_p),
        ("event_destroy", None, c_void_p),
        ("topic_new", c_void_p, c_void_p, c_char_p, c_void_p),
        ("topic_destroy", None, c_void_p),
        ("metadata", c_int, c_void_p, c_int, c_void_p, POINTER(c_void_p), c_int),
        ("metadata_destroy", None, c_void_p),
        ("produce", c_int, c_void_p, c_int32, c_int, c_char_p, c_size_t, c_char_p, c_size_t, c_void_p),
        ("produce_batch", c_int, c_void_p, c_int32, c_int, c_void_p, c_int),
        # It has further arguments, for which there are no types.
        ("producev", c_int),
        ("last_error", c_int),
        ("flush", c_int, c_void_p, c_int),
        ("outq_len", c_int, c_void_p),
        ("purge", c_int, c_void_p, c_int),
        ("init_transactions", c_void_p, c_void_p, c_int),
        ("begin_transaction", c_void_p, c_void_p),
        ("commit_transaction", c_void_p, c_void_p, c_int),
        ("abort_transaction", c_void_p, c_void_p, c_int),
        ("error_string", c_char_p, c_void_p),
        ("error_destroy", None, c_void_p),
        ("err2str", c_char_p, c_int),
    ):
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments or None
    return library


_rd: Final = _library()


def messages_of(bodies: Matrix) -> Messages:
    """Describe each row as a message. The bodies must be contiguous and stay alive until they are sent."""
    rows, size = bodies.shape
    messages = np.zeros(rows, dtype=_MESSAGE)
    messages["body"] = np.arange(rows, dtype=np.uint64) * np.uint64(size) + np.uint64(bodies.ctypes.data)
    messages["size"] = size
    return messages


class RecordKeys:
    """The keys of messages. It must stay alive until they are sent."""

    def __init__(self, keys: Texts) -> None:
        encoded = [key.encode() for key in keys.tolist()]
        sizes = np.fromiter(map(len, encoded), np.uint64, len(encoded))
        self._data = np.frombuffer(b"".join(encoded), np.uint8)
        self._sizes = sizes
        self._begins = np.uint64(self._data.ctypes.data) + np.cumsum(sizes) - sizes

    def add_to(self, messages: Messages) -> None:
        messages["key"], messages["key_size"] = self._begins, self._sizes


class LibrdkafkaProducer:
    """All methods raise DriverError. Those with a timeout block: call them in a thread."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        # Error codes of messages that were not delivered; fatal errors of the connection.
        self.delivery_errors: set[int] = set()
        self.failures: list[str] = []
        listener = _listener(self.delivery_errors, self.failures)
        self._rk = _new(settings, listener)
        self._topics: dict[str, int] = {}
        # Destroy it with the last reference only: a thread may still wait in it.
        weakref.finalize(self, _destroy, self._rk, self._topics, listener)

    def wait_topic(self, topic: str, timeout_s: float) -> None:
        """Return when the producer is connected and knows the topic."""
        metadata = c_void_p()
        error = _rd.rd_kafka_metadata(self._rk, 0, self._topic(topic), byref(metadata), _milliseconds(timeout_s))
        if error:
            raise DriverError(f"Kafka: {describe_error(error)}")
        _rd.rd_kafka_metadata_destroy(metadata)

    def send(self, topic: str, messages: Messages, partition: int) -> int:
        """Queue messages; return how many of the first ones had space in the library's queue."""
        handle, count = self._topic(topic), len(messages)
        queued: int = _rd.rd_kafka_produce_batch(handle, partition, _COPY, messages.ctypes.data, count)
        if queued < count:
            _check_full(int(messages["error"][queued]))
        return queued

    def send_one(self, topic: str, body: bytes, key: bytes, partition: int) -> bool:
        """Queue a message; return False if the library's queue is full."""
        handle = self._topic(topic)
        if not _rd.rd_kafka_produce(handle, partition, _COPY, body, len(body), key, len(key), None):
            return True
        _check_full(_rd.rd_kafka_last_error())
        return False

    def send_with_headers(
        self, topic: str, body: bytes, key: bytes | None, partition: int, headers: Mapping[str, bytes]
    ) -> bool:
        """Queue a message; return False if the library's queue is full."""
        arguments: list[object] = [
            _TOPIC, c_void_p(self._topic(topic)), _PARTITION, c_int32(partition), _FLAGS, _COPY,
            _VALUE, body, c_size_t(len(body)),
        ]  # fmt: skip
        if key is not None:
            arguments += [_KEY, key, c_size_t(len(key))]
        for name, value in headers.items():
            arguments += [_HEADER, name.encode(), value, c_ssize_t(len(value))]
        error = _rd.rd_kafka_producev(c_void_p(self._rk), *arguments, _END)
        if error:
            _check_full(error)
        return not error

    def flush(self, timeout_s: float) -> int:
        """Wait for all confirmations; return the number of messages that are still unconfirmed."""
        late = _rd.rd_kafka_flush(self._rk, _milliseconds(timeout_s))
        return int(_rd.rd_kafka_outq_len(self._rk)) if late else 0

    def purge(self) -> None:
        """Drop all unconfirmed messages."""
        _rd.rd_kafka_purge(self._rk, _QUEUED_AND_IN_FLIGHT)

    def init_transactions(self, timeout_s: float) -> None:
        _check(_rd.rd_kafka_init_transactions(self._rk, _milliseconds(timeout_s)))

    def begin_transaction(self) -> None:
        _check(_rd.rd_kafka_begin_transaction(self._rk))

    def commit_transaction(self, timeout_s: float) -> None:
        _check(_rd.rd_kafka_commit_transaction(self._rk, _milliseconds(timeout_s)))

    def abort_transaction(self, timeout_s: float) -> None:
        _check(_rd.rd_kafka_abort_transaction(self._rk, _milliseconds(timeout_s)))

    def _topic(self, name: str) -> int:
        handle = self._topics.get(name)
        if handle is None:
            handle = _rd.rd_kafka_topic_new(self._rk, name.encode(), None)
            if handle is None:
                raise DriverError(f"Kafka: {describe_error(_rd.rd_kafka_last_error())}")
            self._topics[name] = handle
        return handle


def describe_error(error: int) -> str:
    text: bytes = _rd.rd_kafka_err2str(error)
    return text.decode()


def _listener(delivery_errors: set[int], failures: list[str]) -> Callable[..., None]:
    """Return the event callback. It has no reference to the producer, so that it can be collected."""

    def on_event(_: object, event: int, __: object) -> None:
        error = _rd.rd_kafka_event_error(event)
        if _rd.rd_kafka_event_type(event) == _DELIVERY:
            delivery_errors.add(error)
        elif error in (KafkaError._FATAL, KafkaError._ALL_BROKERS_DOWN):
            failures.append(_rd.rd_kafka_event_error_string(event).decode())
        # A flush waits until its events are destroyed.
        _rd.rd_kafka_event_destroy(event)

    return _Listener(on_event)


def _new(settings: Mapping[str, object], listener: Callable[..., None]) -> int:
    conf, reason = _rd.rd_kafka_conf_new(), ctypes.create_string_buffer(_ERROR_TEXT_BYTES)
    # A report for every delivered message would cost more than sending it.
    for name, value in {**settings, "delivery.report.only.error": "true"}.items():
        if _rd.rd_kafka_conf_set(conf, name.encode(), str(value).encode(), reason, _ERROR_TEXT_BYTES):
            raise DriverError(f"Kafka: {reason.value.decode()}")
    _rd.rd_kafka_conf_set_events(conf, _DELIVERY | _ERROR)
    _rd.rd_kafka_conf_set_background_event_cb(conf, listener)
    producer: int | None = _rd.rd_kafka_new(_PRODUCER, conf, reason, _ERROR_TEXT_BYTES)
    if producer is None:
        raise DriverError(f"Kafka: {reason.value.decode()}")
    events, background = _rd.rd_kafka_queue_get_main(producer), _rd.rd_kafka_queue_get_background(producer)
    _rd.rd_kafka_queue_forward(events, background)
    _rd.rd_kafka_queue_destroy(events)
    _rd.rd_kafka_queue_destroy(background)
    return producer


def _destroy(rk: int, topics: dict[str, int], _: object) -> None:
    for topic in topics.values():
        _rd.rd_kafka_topic_destroy(topic)
    _rd.rd_kafka_destroy(rk)


def _check(error: int | None) -> None:
    if error is not None:
        reason = _rd.rd_kafka_error_string(error).decode()
        _rd.rd_kafka_error_destroy(error)
        raise DriverError(f"Kafka: {reason}")


def _check_full(error: int) -> None:
    if error != KafkaError._QUEUE_FULL:
        raise DriverError(f"Kafka refused a message: {describe_error(error)}")


def _milliseconds(timeout_s: float) -> int:
    return int(timeout_s * 1000)
