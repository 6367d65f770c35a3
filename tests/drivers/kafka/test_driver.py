"""Against the broker that Kafka's C library plays for tests."""

import asyncio
from dataclasses import dataclass

import confluent_kafka as library
import numpy as np
import pytest
from confluent_kafka import KafkaError, TopicPartition

from mqlab.drivers import DriverError
from mqlab.drivers.api import Matrix
from mqlab.drivers.kafka.client import KafkaClient
from mqlab.drivers.kafka.consumer_thread import ConsumerThread, PartitionOffset
from mqlab.drivers.kafka.links import KafkaProducer
from mqlab.drivers.kafka.producer import LibrdkafkaProducer, messages_of

SECONDS = 240.0
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


@dataclass(frozen=True)
class Broker:
    """Is there as long as its host."""

    host: library.Producer

    @property
    def address(self) -> str:
        (at,) = self.host.list_topics(timeout=SECONDS).brokers.values()
        return f"{at.host}:{at.port}"

    @property
    def settings(self) -> dict[str, object]:
        return {"bootstrap.servers": self.address, "log_level": 0}

    def values(self, count: int) -> list[bytes | None]:
        """What is in partition 0 of topic "t", so many of them."""
        consumer = library.Consumer({**self.settings, "group.id": "test", "auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition("t", 0, 0)])
        try:
            return [message.value() for message in consumer.consume(count, SECONDS)]
        finally:
            consumer.close()


@pytest.fixture
def broker() -> Broker:
    return Broker(library.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "", "log_level": 0}))


def bodies(rows: int, size: int = 12) -> Matrix:
    return np.arange(rows * size, dtype=np.uint32).astype(np.uint8).reshape(rows, size)


def test_bodies_are_sent_as_they_lie_in_memory(broker: Broker) -> None:
    producer, sent = LibrdkafkaProducer(broker.settings), bodies(1000)
    producer.wait_topic("t", SECONDS)
    assert producer.send("t", messages_of(sent), 0) == 1000
    assert producer.flush(SECONDS) == 0
    assert broker.values(1000) == [row.tobytes() for row in sent]


def test_a_body_of_nothing(broker: Broker) -> None:
    producer = LibrdkafkaProducer(broker.settings)
    assert producer.send("t", messages_of(bodies(2, 0)), 0) == 2
    assert producer.flush(SECONDS) == 0
    assert broker.values(2) == [b"", b""]


def test_it_takes_the_first_ones_as_many_as_it_has_room_for() -> None:
    producer = LibrdkafkaProducer({**NOWHERE, "queue.buffering.max.messages": 10})
    assert producer.send("t", messages_of(bodies(4)), 0) == 4
    assert producer.send("t", messages_of(bodies(25)), 0) == 6
    assert not producer.send_one("t", b"body", b"key", 0)


def test_the_rest_waits_for_room_and_keeps_its_order(broker: Broker) -> None:
    async def send() -> None:
        client = KafkaClient(f"tcp:{broker.address}", {}, "test")
        producer = KafkaProducer(client, linger_ms=0, transacted=False)
        producer.library = LibrdkafkaProducer({**broker.settings, "queue.buffering.max.messages": 10, "linger.ms": 0})
        every_other = bodies(2000)[::2]
        await producer.send("t", every_other, 0)
        await producer.flush()
        assert broker.values(1000) == [row.tobytes() for row in every_other]
        client.close()

    asyncio.run(send())


def test_what_the_library_refuses() -> None:
    producer = LibrdkafkaProducer({**NOWHERE, "message.max.bytes": 1000})
    with pytest.raises(DriverError, match=r"refused a message: .*too large"):
        producer.send("t", messages_of(bodies(2, 2000)), 0)
    with pytest.raises(DriverError, match=r"refused a message: .*too large"):
        producer.send_one("t", bytes(2000), b"key", 0)
    with pytest.raises(DriverError, match=r"no\.such\.setting"):
        LibrdkafkaProducer({"no.such.setting": 1})
    with pytest.raises(DriverError, match="Kafka"):
        LibrdkafkaProducer({"acks": "1", "enable.idempotence": "true"})
    with pytest.raises(DriverError, match="Kafka"):
        producer.send("t" * 40_000, messages_of(bodies(1)), 0)
    with pytest.raises(DriverError, match=r"Kafka.*transaction"):
        producer.begin_transaction()


def test_what_nobody_takes_is_told() -> None:
    producer = LibrdkafkaProducer({**NOWHERE, "message.timeout.ms": 50, "linger.ms": 0})
    producer.send("t", messages_of(bodies(3)), 0)
    assert producer.flush(SECONDS) == 0
    assert producer.delivery_errors == {KafkaError._MSG_TIMED_OUT}
    with pytest.raises(DriverError, match="Kafka"):
        producer.wait_topic("t", 0.01)


def test_what_is_given_up_is_not_waited_for() -> None:
    producer = LibrdkafkaProducer(NOWHERE)
    producer.send("t", messages_of(bodies(3)), 0)
    assert producer.flush(0.01) == 3
    producer.purge()
    assert producer.flush(SECONDS) == 0
    assert producer.delivery_errors == {KafkaError._PURGE_QUEUE}


def test_a_consumer_gets_all_in_their_order_whatever_is_in_them(broker: Broker) -> None:
    """More than the library is asked for at once, and no more than there is room for."""
    other = library.Producer(broker.settings)
    values = [None, b"", *(f"{number}".encode() for number in range(2000))]
    for value in values:
        other.produce("t", value, b"key", 0)
    assert other.flush(SECONDS) == 0

    async def read() -> tuple[list[bytes], list[PartitionOffset]]:
        consumer = ConsumerThread(KafkaClient(f"tcp:{broker.address}", {}, "test"), "group", 700, with_keys=True)
        await consumer.start_at("t", [TopicPartition("t", 0, 0)])
        got: list[bytes] = []
        offsets: list[PartitionOffset] = []
        while len(got) < len(values):
            batch, tags, _ = await asyncio.wait_for(consumer.inbox.take(), SECONDS)
            assert len(batch) <= 700
            got += batch.tolist()
            offsets += tags
        await consumer.close()
        return got, offsets

    got, offsets = asyncio.run(read())
    assert got == [value or b"" for value in values]
    assert offsets[-1].offset == len(values)
    assert [key for offset in offsets for key in offset.keys] == [b"key"] * len(values)
