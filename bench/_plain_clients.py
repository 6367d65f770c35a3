"""One side of `plain.py` in a process of its own: a producer or a consumer, by the client that a Python user takes.

    _plain_clients.py CLIENT consume|produce ADDRESS NAME SIZE COUNT
    _plain_clients.py PAIRS pairs ADDRESS NAME SIZE COUNT

Every client sends and receives message by message, in the form of its own documentation. A consumer prints "ready"
when it is subscribed, and at the end how many messages came and in how many seconds. It ends after COUNT messages, or
when none has come for some seconds. `pairs` has as many producers and consumers of mqlab.client.aio, each pair with a
queue and connections of its own, and prints the processor time that COUNT messages took.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import perf_counter, process_time
from urllib.parse import urlsplit

# A consumer that gets nothing for so long has lost what is missing.
SILENCE_S = 3.0
# A producer of many in one process lets the others run after so many messages.
YIELD = 64


class Count:
    """Counts messages, and measures from the first to the last."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.received = 0
        self._first = self._last = 0.0

    def one(self) -> bool:
        """Count one message. Returns whether it was the last."""
        if not self.received:
            self._first = perf_counter()
        self.received += 1
        if self.received == self.expected:
            self._last = perf_counter()
        return self.received >= self.expected

    def end(self) -> None:
        print(self.received, (self._last or perf_counter() - SILENCE_S) - self._first, flush=True)
        # Some clients take seconds to close, or wait for threads.
        os._exit(0)


def ready() -> None:
    print("ready", flush=True)


def host_and_port(address: str) -> tuple[str, int]:
    parts = urlsplit(address if "//" in address else "//" + address.removeprefix("tcp:"))
    return parts.hostname or "127.0.0.1", parts.port or 0


class BlockingMqlab:
    def __init__(self, address: str, name: str) -> None:
        from mqlab.client import connect

        self._session, self._name = connect(address).session(), f"queue:{name}"

    def consume(self, count: Count) -> None:
        consumer = self._session.consumer(self._name)
        ready()
        for _ in consumer:
            if count.one():
                break
        count.end()

    def produce(self, body: bytes, number: int) -> None:
        producer = self._session.producer(self._name)
        for _ in range(number):
            producer.send(body)
        producer.close()


class AsyncMqlab:
    def __init__(self, address: str, name: str) -> None:
        self._address, self._name = address, f"queue:{name}"

    def consume(self, count: Count) -> None:
        async def main() -> None:
            from mqlab.client import aio

            session = await (await aio.connect(self._address)).session()
            consumer = await session.consumer(self._name)
            ready()
            async for _ in consumer:
                if count.one():
                    break
            count.end()

        asyncio.run(main())

    def produce(self, body: bytes, number: int) -> None:
        async def main() -> None:
            from mqlab.client import aio

            connection = await aio.connect(self._address)
            producer = await (await connection.session()).producer(self._name)
            for _ in range(number):
                await producer.send(body)
            await producer.close()  # the broker has them all
            await connection.close()

        asyncio.run(main())


class Nats:
    """Core NATS by nats-py, with no limit on what the client may hold, so that it discards nothing."""

    def __init__(self, address: str, name: str) -> None:
        host, port = host_and_port(address)
        self._url, self._name = f"nats://{host}:{port}", name

    def consume(self, count: Count) -> None:
        async def main() -> None:
            import nats

            connection = await nats.connect(self._url)
            done = asyncio.Event()

            async def handle(_: object) -> None:
                if count.one():
                    done.set()

            await connection.subscribe(self._name, cb=handle, pending_msgs_limit=-1, pending_bytes_limit=-1)
            await connection.flush()
            ready()
            await wait_for(done, count)
            count.end()

        asyncio.run(main())

    def produce(self, body: bytes, number: int) -> None:
        async def main() -> None:
            import nats

            connection = await nats.connect(self._url)
            for _ in range(number):
                await connection.publish(self._name, body)
            await connection.drain()

        asyncio.run(main())


async def wait_for(done: asyncio.Event, count: Count) -> None:
    """Until all messages have come, or none for some seconds after the first."""
    before = -1
    while not done.is_set() and (not count.received or count.received != before):
        before = count.received
        with suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), SILENCE_S)


class Redis:
    """Pub/sub by redis-py."""

    def __init__(self, address: str, name: str) -> None:
        import redis

        host, port = host_and_port(address)
        self._redis, self._name = redis.Redis(host, port), name

    def consume(self, count: Count) -> None:
        subscription = self._redis.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
        subscription.subscribe(self._name)
        subscription.get_message(timeout=10)
        ready()
        while (found := subscription.get_message(timeout=SILENCE_S)) is not None or not count.received:
            if found is not None and count.one():
                break
        count.end()

    def produce(self, body: bytes, number: int) -> None:
        for _ in range(number):
            self._redis.publish(self._name, body)


class Rabbit:
    """A classic queue by pika, acknowledged automatically, published without confirmations."""

    def __init__(self, address: str, name: str) -> None:
        import pika

        host, port = host_and_port(address)
        parameters = pika.ConnectionParameters(host, port)
        self._channel, self._name = pika.BlockingConnection(parameters).channel(), name
        self._channel.queue_declare(name)

    def consume(self, count: Count) -> None:
        channel = self._channel
        ready()
        for method, _, _ in channel.consume(self._name, auto_ack=True, inactivity_timeout=SILENCE_S):
            if (method is None and count.received) or (method is not None and count.one()):
                break
        count.end()

    def produce(self, body: bytes, number: int) -> None:
        for _ in range(number):
            self._channel.basic_publish("", self._name, body)
        self._channel.connection.close()


class Mqtt:
    """QoS 0 by paho-mqtt."""

    def __init__(self, address: str, name: str) -> None:
        from paho.mqtt import client
        from paho.mqtt.enums import CallbackAPIVersion

        self._client, self._name = client.Client(CallbackAPIVersion.VERSION2), name
        self._client.connect(*host_and_port(address))

    def consume(self, count: Count) -> None:
        arrivals: SimpleQueue[None] = SimpleQueue()
        done: Callable[[], bool] = count.one
        self._client.on_message = lambda *_: arrivals.put(None) if done() else None
        self._client.on_subscribe = lambda *_: ready()
        self._client.subscribe(self._name)
        self._client.loop_start()
        wait_for_queue(arrivals, count)

    def produce(self, body: bytes, number: int) -> None:
        self._client.loop_start()
        for _ in range(number):
            last = self._client.publish(self._name, body)
        last.wait_for_publish()
        self._client.disconnect()


def wait_for_queue(arrivals: "SimpleQueue[None]", count: Count) -> None:
    """Until the last message, or until none has come for some seconds after the first."""
    before = -1
    while not count.received or count.received != before:
        before = count.received
        with suppress(Empty):
            arrivals.get(timeout=SILENCE_S)
            break
    count.end()


class Stomp:
    """A queue by stomp.py, acknowledged automatically."""

    def __init__(self, address: str, name: str) -> None:
        import stomp

        self._listener = stomp.ConnectionListener()
        self._connection, self._name = stomp.Connection12([host_and_port(address)]), f"/queue/{name}"
        self._connection.connect("guest", "guest", wait=True)

    def consume(self, count: Count) -> None:
        arrivals: SimpleQueue[None] = SimpleQueue()
        self._listener.on_message = lambda _: arrivals.put(None) if count.one() else None
        self._connection.set_listener("", self._listener)
        self._connection.subscribe(self._name, id="1", ack="auto")
        ready()
        wait_for_queue(arrivals, count)

    def produce(self, body: bytes, number: int) -> None:
        for _ in range(number):
            self._connection.send(self._name, body)
        self._connection.disconnect("last")


class Kafka:
    """A topic with one partition by confluent-kafka, which is librdkafka in C."""

    def __init__(self, address: str, name: str) -> None:
        host, port = host_and_port(address)
        self._settings, self._name = {"bootstrap.servers": f"{host}:{port}"}, name

    def consume(self, count: Count) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer({**self._settings, "group.id": self._name, "auto.offset.reset": "earliest"})
        consumer.subscribe([self._name])
        ready()
        while (found := consumer.poll(SILENCE_S)) is not None or not count.received:
            if found is not None and not found.error() and count.one():
                break
        count.end()

    def produce(self, body: bytes, number: int) -> None:
        from confluent_kafka import Producer

        producer = Producer(self._settings)
        for _ in range(number):
            while True:
                try:
                    producer.produce(self._name, body)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        producer.flush()


def play_pairs(pairs: int, address: str, name: str, body: bytes, number: int) -> None:
    async def main() -> None:
        from mqlab.client import aio

        links = []
        for pair in range(pairs):
            receiving, sending = [await (await aio.connect(address)).session() for _ in range(2)]
            queue = f"queue:{name}-{pair}"
            links.append((await sending.producer(queue), await receiving.consumer(queue)))
        share = number // pairs

        async def produce(producer: aio.Producer) -> None:
            for sent in range(share):
                await producer.send(body)
                if sent % YIELD == 0:
                    await asyncio.sleep(0)

        async def consume(consumer: aio.Consumer) -> None:
            left = share
            async for _ in consumer:
                left -= 1
                if not left:
                    return

        ready()
        sys.stdin.readline()
        began = process_time()
        sides = [produce(producer) for producer, _ in links] + [consume(consumer) for _, consumer in links]
        await asyncio.gather(*sides)
        print(share * pairs, process_time() - began, flush=True)
        os._exit(0)

    asyncio.run(main())


Client = type[BlockingMqlab | AsyncMqlab | Nats | Redis | Rabbit | Mqtt | Stomp | Kafka]
CLIENTS: dict[str, Client] = {
    "mqlab": BlockingMqlab, "mqlab.aio": AsyncMqlab, "nats-py": Nats, "redis-py": Redis, "pika": Rabbit,
    "paho-mqtt": Mqtt, "stomp.py": Stomp, "confluent-kafka": Kafka,
}  # fmt: skip


def main(arguments: Iterator[str]) -> None:
    client, role, address, name = (next(arguments) for _ in range(4))
    size, number = (int(next(arguments)) for _ in range(2))
    if role == "pairs":
        play_pairs(int(client), address, name, bytes(size), number)
    side = CLIENTS[client](address, name)
    if role == "consume":
        side.consume(Count(number))
    else:
        side.produce(bytes(size), number)


if __name__ == "__main__":
    main(iter(sys.argv[1:]))
