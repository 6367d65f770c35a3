"""A Kafka consumer in a thread of its own: what it reads goes to an inbox in the event loop."""

import asyncio
import threading
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mqlab.drivers.base import DriverError
from mqlab.drivers.inbox import Inbox
from mqlab.drivers.kafka_client import ANSWER_SECONDS, Cluster
from mqlab.wire.bodies import Bodies

Settled = TypeVar("Settled")

# A thread that waits for messages looks so often whether it should end, or has something to acknowledge.
_LOOK_SECONDS: Final = 0.02
_MOST_AT_ONCE: Final = 10_000
# A broker that has just started takes its time when many groups are made at once.
_ASSIGN_SECONDS: Final = 90.0
# Fetched ahead in any case: batches are fetched whole, and to fetch them one by one would take turns with reading.
_LEAST_QUEUED: Final = 10_000


class Mark(NamedTuple):
    """What was read of one partition: acknowledged, the next is that at `offset`. `keys` only where they are wanted."""

    partition: int
    offset: int
    keys: list[bytes]


class Pump:
    """`start` makes the consumer read; it then runs until it is closed."""

    def __init__(self, cluster: Cluster, group: str, room: int, *, keyed: bool = False) -> None:
        self._cluster = cluster
        self._keyed = keyed
        self._loop = asyncio.get_running_loop()
        self._may_read = threading.Event()
        self._may_read.set()
        self._ended = threading.Event()
        self.inbox: Inbox[Mark] = Inbox(room, lambda _: self._may_read.clear(), lambda _: self._may_read.set())
        self._most = max(1, min(_MOST_AT_ONCE, room))
        self.consumer = Consumer(cluster.settings({
            "group.id": group, "enable.auto.commit": False, "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest", "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100, "heartbeat.interval.ms": 300, "queued.min.messages": max(room, _LEAST_QUEUED),
            "fetch.error.backoff.ms": 50, "fetch.queue.backoff.ms": 5, "on_commit": self._committed,
        }, self._fail))  # fmt: skip
        self._thread = threading.Thread(target=self._run, name="kafka-consumer", daemon=True)
        self._lock = threading.Lock()
        self._done: dict[int, int] = {}
        self._committing = False
        # What a role waits for the broker to have, and how it is told.
        self._finishing: tuple[list[TopicPartition], asyncio.Future[str]] | None = None
        self._topic = ""

    async def at(self, topic: str, offsets: list[TopicPartition]) -> None:
        """Reads from there on."""
        self._topic = topic
        self.consumer.assign(offsets)
        self._thread.start()

    async def sharing(self, topic: str) -> None:
        """Reads what the group has not read; returns when it has its share of the partitions."""
        self._topic = topic
        assigned: asyncio.Future[None] = self._loop.create_future()

        def on_assign(_: Consumer, __: list[TopicPartition]) -> None:
            self._tell(lambda: settle(assigned, None))

        self.consumer.subscribe([topic], on_assign=on_assign)
        self._thread.start()
        try:
            async with asyncio.timeout(_ASSIGN_SECONDS):
                await assigned
        except TimeoutError:
            raise DriverError(f"Kafka assigned no part of {topic} within {_ASSIGN_SECONDS:g} s") from None

    async def end(self, topic: str) -> list[TopicPartition]:
        """Where the next messages will be."""

        def ends() -> list[TopicPartition]:
            partitions = self.consumer.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic].partitions
            found = []
            for number in partitions:
                part = TopicPartition(topic, number)
                _, high = self.consumer.get_watermark_offsets(part, timeout=ANSWER_SECONDS)
                found.append(TopicPartition(topic, number, high))
            return found

        return await self._cluster.wait(ends)

    def acknowledge(self, marks: list[Mark]) -> None:
        """Told to the broker soon, if it has taken the last word; else with the next."""
        with self._lock:
            self._done |= {mark.partition: mark.offset for mark in marks}

    async def finish(self, marks: list[Mark]) -> None:
        """Returns when the broker has it."""
        finished: asyncio.Future[str] = self._loop.create_future()
        with self._lock:
            self._finishing = (self._offsets({mark.partition: mark.offset for mark in marks}), finished)
        why = await finished
        if why:
            raise DriverError(why)

    async def close(self) -> None:
        if self._ended.is_set():
            return
        self._ended.set()
        self._may_read.set()
        if self._thread.ident is not None:
            await self._loop.run_in_executor(None, self._thread.join)
        try:
            if self._done:
                offsets = self._offsets(self._done)
                await self._cluster.wait(self.consumer.commit, offsets=offsets, asynchronous=False)
        finally:
            await self._loop.run_in_executor(None, self.consumer.close)

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self._commit()
                if not self._may_read.wait(_LOOK_SECONDS):
                    continue
                # Only a poll returns with the first message; the others are there then, or not.
                first = self.consumer.poll(_LOOK_SECONDS)
                if first is not None:
                    self._read([first, *self.consumer.consume(self._most - 1, 0)] if self._most > 1 else [first])
        except (KafkaException, RuntimeError) as error:
            self._fail(f"Kafka: {error}")

    def _read(self, messages: list[Message]) -> None:
        failed = next((error for error in map(Message.error, messages) if error is not None), None)
        if failed is not None:
            self._fail(f"Kafka: {failed.str()}")
            return
        values = [value or b"" for value in map(Message.value, messages)]
        offsets = np.zeros(len(values) + 1, dtype=np.int32)
        np.cumsum([*map(len, values)], out=offsets[1:])
        bodies = Bodies(np.frombuffer(b"".join(values), dtype=np.uint8), offsets)
        last = dict(zip(map(Message.partition, messages), map(Message.offset, messages), strict=True))
        marks = [Mark(partition, offset + 1, []) for partition, offset in last.items()]
        if self._keyed:
            marks[0] = marks[0]._replace(keys=[message.key() or b"" for message in messages])
        self._tell(lambda: self.inbox.put(bodies, marks))

    def _commit(self) -> None:
        """Here, not where it is asked for: the library can do nothing else for a consumer while that polls."""
        with self._lock:
            finishing, self._finishing = self._finishing, None
            done: list[TopicPartition] = []
            if self._done and not self._committing:
                done, self._done, self._committing = self._offsets(self._done), {}, True
        if done:
            self.consumer.commit(offsets=done, asynchronous=True)
        if finishing is not None:
            offsets, finished = finishing
            why = ""
            try:
                self.consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException as error:
                why = f"Kafka did not commit: {error.args[0].str()}"
            self._tell(lambda: settle(finished, why))

    def _committed(self, error: KafkaError | None, _: list[TopicPartition]) -> None:
        self._committing = False
        if error is not None:
            self._fail(f"Kafka did not take an acknowledgement: {error.str()}")

    def _offsets(self, done: dict[int, int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition, offset) for partition, offset in done.items()]

    def _fail(self, why: str) -> None:
        self._tell(lambda: self.inbox.fail(why))

    def _tell(self, what: Callable[[], object]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(what)


def settle(future: "asyncio.Future[Settled]", result: Settled) -> None:
    """Unless nobody waits for it any more."""
    if not future.done():
        future.set_result(result)
