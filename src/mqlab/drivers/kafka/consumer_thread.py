"""A Kafka consumer in a thread of its own: what it reads goes to an inbox in the event loop."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.common.timeouts import ANSWER_TIMEOUT_S, with_timeout
from mqlab.drivers.kafka.client import KafkaClient
from mqlab.wire.native.bodies import Bodies

Settled = TypeVar("Settled")

# A thread that waits for messages looks so often whether it should end, or has something to acknowledge.
_POLL_INTERVAL_S: Final = 0.02
# So many are handed over together: cheap for each, and soon even where many consumers read at once.
_MAX_BATCH: Final = 2_000
# So many of the objects that the library makes of messages are made at once: twice as many would make Python look for
# garbage among them, again and again, which takes as long as to make them.
_CHUNK: Final = 300
# A broker that has just started takes its time when many groups are made at once.
_ASSIGN_TIMEOUT_S: Final = 90.0
# Fetched ahead: batches are fetched whole, and to fetch them one by one would take turns with reading. No more than
# that: where many read at once, what is fetched for later keeps them from what is there.
_PREFETCHED: Final = 20_000


class PartitionOffset(NamedTuple):
    """What was read of one partition: acknowledged, the next is that at `offset`. `keys` only where they are wanted."""

    partition: int
    offset: int
    keys: list[bytes]


class ConsumerThread:
    """`start` makes the consumer read; it then runs until it is closed."""

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
        self._most = max(1, min(_MAX_BATCH, capacity))
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
        # What a role waits for the broker to have, and how it is told.
        self._commit_request: tuple[list[TopicPartition], asyncio.Future[str]] | None = None
        self._topic = ""

    async def start_at(self, topic: str, offsets: list[TopicPartition]) -> None:
        """Reads from there on."""
        self._topic = topic
        self.consumer.assign(offsets)
        self._thread.start()

    async def join_group(self, topic: str) -> None:
        """Reads what the group has not read; returns when it has its share of the partitions."""
        self._topic = topic
        assigned: asyncio.Future[None] = self._loop.create_future()

        def on_assign(_: Consumer, __: list[TopicPartition]) -> None:
            self._call_in_loop(lambda: settle(assigned, None))

        self.consumer.subscribe([topic], on_assign=on_assign)
        self._thread.start()
        await with_timeout(assigned, _ASSIGN_TIMEOUT_S, f"Kafka assigned no part of {topic}")

    async def end_offsets(self, topic: str) -> list[TopicPartition]:
        """Where the next messages will be."""
        return await self._client.run_blocking(self._read_end_offsets, topic)

    def acknowledge(self, tags: list[PartitionOffset]) -> None:
        """Told to the broker soon, if it has taken the last word; else with the next."""
        with self._lock:
            self._acknowledged |= {tag.partition: tag.offset for tag in tags}

    async def commit(self, tags: list[PartitionOffset]) -> None:
        """Returns when the broker has it."""
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
        offsets, give_up = [], time.monotonic() + ANSWER_TIMEOUT_S
        partitions = [*self.consumer.list_topics(topic, timeout=ANSWER_TIMEOUT_S).topics[topic].partitions]
        while partitions:
            partition = TopicPartition(topic, partitions[0])
            try:
                _, partition.offset = self.consumer.get_watermark_offsets(partition, timeout=ANSWER_TIMEOUT_S)
            except KafkaException as error:
                # A broker that has just made a topic does not lead it at once.
                if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > give_up:
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
                # Only a poll returns with the first message; the others are there then, or not.
                first = self.consumer.poll(_POLL_INTERVAL_S)
                if first is not None:
                    self._read(first)
        except (KafkaException, RuntimeError) as error:
            self._fail(f"Kafka: {error}")

    def _read(self, first: Message) -> None:
        """It, and what else is there."""
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
            last = dict(zip(map(Message.partition, messages), messages, strict=True))
            offsets |= {partition: message.offset() + 1 for partition, message in last.items()}
            most = min(_CHUNK, self._most - len(values))
            messages = self.consumer.consume(most, 0) if most else []
        if values:
            bodies = Bodies.of([value or b"" for value in values])
            # The keys are in the order of the messages, whatever partition they are of.
            tags = [PartitionOffset(partition, offset, []) for partition, offset in offsets.items()]
            tags[0] = tags[0]._replace(keys=keys)
            self._call_in_loop(lambda: self.inbox.put(bodies, tags))
        if failed is not None:
            self._fail(f"Kafka: {failed.str()}")

    def _commit(self) -> None:
        """Here, not where it is asked for: the library can do nothing else for a consumer while that polls."""
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
            self._fail(f"Kafka did not take an acknowledgement: {error.str()}")

    def _offsets(self, done: dict[int, int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition, offset) for partition, offset in done.items()]

    def _connection_lost(self, error: KafkaError) -> None:
        if error.fatal() or error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._fail(f"the Kafka broker is gone: {error.str()}")

    def _fail(self, reason: str) -> None:
        self._call_in_loop(lambda: self.inbox.fail(reason))

    def _call_in_loop(self, callback: Callable[[], object]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback)


def settle(future: "asyncio.Future[Settled]", result: Settled) -> None:
    """Unless nobody waits for it any more."""
    if not future.done():
        future.set_result(result)
