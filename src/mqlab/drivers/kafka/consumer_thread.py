"""A Kafka consumer in its own thread, which puts messages into an inbox of the event loop."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.futures import settle
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.common.timeouts import ANSWER_TIMEOUT_S, with_timeout
from mqlab.drivers.kafka.client import KafkaClient
from mqlab.wire.native.bodies import Bodies

# How often a thread that waits for messages checks whether it should stop or commit offsets.
_POLL_INTERVAL_S: Final = 0.02
# Messages of one batch: enough to be cheap, few enough to be prompt with many consumers.
_MAX_BATCH: Final = 2_000
# Message objects that the library creates at once. With twice as many, Python's garbage collector runs again and again,
# which takes as long as creating them.
_CHUNK: Final = 300
# A broker that has just started is slow when many groups form at once.
_ASSIGN_TIMEOUT_S: Final = 90.0
# Messages that the library fetches ahead: with less, fetching and reading would alternate; with more, many consumers
# would spend their time on messages for later.
_PREFETCHED: Final = 20_000


class PartitionOffset(NamedTuple):
    """The offset behind the messages read from a partition, which acknowledges them. `keys` are empty unless needed."""

    partition: int
    offset: int
    keys: list[bytes]


class ConsumerThread:
    """`start_at` or `join_group` starts the thread; it runs until `close`."""

    def __init__(self, client: KafkaClient, group: str, capacity: int, *, with_keys: bool = False) -> None:
        self._client = client
        self._with_keys = with_keys
        self._loop = asyncio.get_running_loop()
        self._may_read = threading.Event()
        self._may_read.set()
        self._ended = threading.Event()
        self.inbox: Inbox[PartitionOffset] = Inbox(
            capacity, lambda _: self._may_read.clear(), lambda _: self._may_read.set()
        )
        self._max_batch = max(1, min(_MAX_BATCH, capacity))
        self.consumer = Consumer({
            **client.settings, "error_cb": self._connection_lost, "on_commit": self._committed, "group.id": group,
            "enable.auto.commit": False, "enable.auto.offset.store": False, "auto.offset.reset": "earliest",
            "isolation.level": "read_committed", "fetch.wait.max.ms": 100, "heartbeat.interval.ms": 300,
            "queued.min.messages": _PREFETCHED, "fetch.error.backoff.ms": 50, "fetch.queue.backoff.ms": 5,
        })  # fmt: skip
        self._thread = threading.Thread(target=self._run, name="kafka-consumer", daemon=True)
        self._lock = threading.Lock()
        self._acknowledged: dict[int, int] = {}
        self._committing = False
        # Offsets of a commit that a role waits for, and its future, which gets an error text or "".
        self._commit_request: tuple[list[TopicPartition], asyncio.Future[str]] | None = None
        self._topic = ""

    async def start_at(self, topic: str, offsets: list[TopicPartition]) -> None:
        """Read from these offsets on."""
        self._topic = topic
        self.consumer.assign(offsets)
        self._thread.start()

    async def join_group(self, topic: str) -> None:
        """Read what the group has not read; return when the group has assigned partitions."""
        self._topic = topic
        assigned: asyncio.Future[None] = self._loop.create_future()

        def on_assign(_: Consumer, __: list[TopicPartition]) -> None:
            self._call_in_loop(lambda: settle(assigned, None))

        self.consumer.subscribe([topic], on_assign=on_assign)
        self._thread.start()
        await with_timeout(assigned, _ASSIGN_TIMEOUT_S, f"Kafka assigned no partition of {topic}")

    async def end_offsets(self, topic: str) -> list[TopicPartition]:
        """Return the offsets of the next messages."""
        return await self._client.run_blocking(self._read_end_offsets, topic)

    def acknowledge(self, tags: list[PartitionOffset]) -> None:
        """The thread commits these offsets when its last commit is done."""
        with self._lock:
            self._acknowledged |= {tag.partition: tag.offset for tag in tags}

    async def commit(self, tags: list[PartitionOffset]) -> None:
        """Commit offsets; return when the broker has confirmed."""
        committed: asyncio.Future[str] = self._loop.create_future()
        with self._lock:
            self._commit_request = (self._offsets({tag.partition: tag.offset for tag in tags}), committed)
        if reason := await with_timeout(committed):
            raise DriverError(reason)

    async def close(self) -> None:
        if self._ended.is_set():
            return
        self._ended.set()
        self._may_read.set()
        await self._client.run_blocking(self._stop)

    def _stop(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()
        try:
            if self._acknowledged:
                self.consumer.commit(offsets=self._offsets(self._acknowledged), asynchronous=False)
        finally:
            self.consumer.close()

    def _read_end_offsets(self, topic: str) -> list[TopicPartition]:
        offsets, deadline = [], time.monotonic() + ANSWER_TIMEOUT_S
        partitions = [*self.consumer.list_topics(topic, timeout=ANSWER_TIMEOUT_S).topics[topic].partitions]
        while partitions:
            partition = TopicPartition(topic, partitions[0])
            try:
                _, partition.offset = self.consumer.get_watermark_offsets(partition, timeout=ANSWER_TIMEOUT_S)
            except KafkaException as error:
                # A new partition has no leader at first.
                if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_INTERVAL_S)
                continue
            offsets.append(partition)
            del partitions[0]
        return offsets

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self._commit()
                if not self._may_read.wait(_POLL_INTERVAL_S):
                    continue
                # `poll` returns with the first message; `consume` would wait for a full batch.
                first = self.consumer.poll(_POLL_INTERVAL_S)
                if first is not None:
                    self._read(first)
        except (KafkaException, RuntimeError) as error:
            self._fail(f"Kafka: {error}")

    def _read(self, first: Message) -> None:
        """Pass on the first message and all others that the library has fetched."""
        values: list[bytes | None] = []
        keys: list[bytes] = []
        offsets: dict[int, int] = {}
        messages, failed = [first], None
        while messages:
            failed = next(filter(None, map(Message.error, messages)), None)
            if failed is not None:
                break
            values += map(Message.value, messages)
            if self._with_keys:
                keys += [message.key() or b"" for message in messages]
            last = dict(zip(map(Message.partition, messages), map(Message.offset, messages), strict=True))
            # Only a message that reports an error has neither.
            offsets |= {partition or 0: (offset or 0) + 1 for partition, offset in last.items()}
            count = min(_CHUNK, self._max_batch - len(values))
            messages = self.consumer.consume(count, 0) if count else []
        if values:
            bodies = Bodies.of([value or b"" for value in values])
            # The first tag has the keys of all messages, in their order.
            tags = [PartitionOffset(partition, offset, []) for partition, offset in offsets.items()]
            tags[0] = tags[0]._replace(keys=keys)
            self._call_in_loop(lambda: self.inbox.put(bodies, tags))
        if failed is not None:
            self._fail(f"Kafka: {failed.str()}")

    def _commit(self) -> None:
        """Commit in this thread, because the library serves one call of a consumer at a time."""
        with self._lock:
            request, self._commit_request = self._commit_request, None
            done: list[TopicPartition] = []
            if self._acknowledged and not self._committing:
                done, self._acknowledged, self._committing = self._offsets(self._acknowledged), {}, True
        if done:
            self.consumer.commit(offsets=done, asynchronous=True)
        if request is not None:
            offsets, committed = request
            reason = ""
            try:
                self.consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException as error:
                reason = f"Kafka did not commit: {error.args[0].str()}"
            self._call_in_loop(lambda: settle(committed, reason))

    def _committed(self, error: KafkaError | None, _: list[TopicPartition]) -> None:
        self._committing = False
        if error is not None:
            self._fail(f"Kafka did not accept an acknowledgement: {error.str()}")

    def _offsets(self, done: dict[int, int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition, offset) for partition, offset in done.items()]

    def _connection_lost(self, error: KafkaError) -> None:
        if error.fatal() or error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._fail(f"the Kafka broker is unreachable: {error.str()}")

    def _fail(self, reason: str) -> None:
        self._call_in_loop(lambda: self.inbox.fail(reason))

    def _call_in_loop(self, callback: Callable[[], object]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback)
