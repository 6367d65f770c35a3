"""Measures one work tree for `cpu_time.py`: a key and a number a line on stdin, the rate a line on stdout.

Broker and clients share one process and one event loop, so that the processor time of the process is that of the whole
path of a message. A rate is in messages (A, D: batches) a second of processor time.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np
import uvloop

if TYPE_CHECKING:
    # The tree that is measured is known only when this runs.
    from mqlab.drivers import (
        DriverConnection,
        DriverError,
        DriverRequester,
        Receiver,
        ReceiverOptions,
        Reply,
        RequestBatch,
        Sender,
    )

BODY = bytes(1024)
SMALL = b"123456789012"
# The rows and the size of a body in a batch of A and of D.
BATCHES = {"A": (1024, 12), "D": (16, 16 * 1024)}
PREFETCH = 10_000
# Messages that the lab's driver gets with a call.
DRIVER_CALL = 256


async def serve() -> None:
    from mqlab.broker.server.inprocess.local_broker import LocalBroker
    from mqlab.broker.settings import Settings

    folder = TemporaryDirectory()
    async with LocalBroker(Settings(name="cpu-time", listen=("tcp:127.0.0.1:0",), data=Path(folder.name))) as local:
        tcp = str(local.addresses[0])
        # Opened when they are first asked for: an older tree may lack what another key needs.
        openers = {
            "RR1": partial(lab_requests, tcp, 1), "RR8": partial(lab_requests, tcp, 8),
            "requests": partial(requests, tcp), "bindings": partial(requests, "bindings:cpu-time"),
            "headers": partial(single_sends, tcp), "plain": partial(plain_sends, tcp, 0),
            "plain_64": partial(plain_sends, tcp, 64), "blocking": partial(blocking_sends, tcp),
            "P": partial(persistent_sends, tcp, 1), "G": partial(persistent_sends, tcp, 20),
            "A": partial(batches, tcp, *BATCHES["A"]), "D": partial(batches, tcp, *BATCHES["D"]),
            "amqp10_A": partial(driver_sends, "amqp10", tcp), "amqp10_G": partial(driver_pairs, "amqp10", tcp, 40),
            "stomp_A": partial(driver_sends, "stomp", tcp), "stomp_G": partial(driver_pairs, "stomp", tcp, 40),
        }  # fmt: skip
        loads: dict[str, Load] = {}
        while line := await asyncio.to_thread(sys.stdin.readline):
            key, number = line.split()
            if key not in loads:
                loads[key] = await openers[key]()
            await loads[key](int(number) // 10 + 1)
            began = process_time()
            await loads[key](int(number))
            print(int(number) / (process_time() - began), flush=True)
        folder.cleanup()
        os._exit(0)  # the responders still wait


Load = Callable[[int], Awaitable[object]]


async def lab_requests(address: str, requesters: int) -> Load:
    """Round trips by the lab's own driver, as RR1 and RR8 of `peers.py`."""
    from mqlab.drivers import DRIVERS

    name, driver = f"queue:lab-{requesters}", DRIVERS["native"](address)
    responder = await (await driver.connect()).responder(name, prefetch=100, persistent=False)
    connection = await driver.connect()
    asking = [await connection.requester(name, f"{name}-replies", persistent=False) for _ in range(requesters)]
    if not hasattr(responder, "start"):
        return lab_requests_by_coroutines(responder, asking)
    responder.start(Echo())

    async def load(number: int) -> None:
        shares = [range(first, number, requesters) for first in range(requesters)]
        await asyncio.gather(*(ask_all(one, share) for one, share in zip(asking, shares, strict=True)))

    return load


class Echo:
    """Replies to each request with its body."""

    def on_requests(self, requests: "RequestBatch") -> list[bytes]:
        return requests.bodies

    def on_confirmed(self) -> None:
        """These replies are not persistent."""

    def on_failure(self, error: Exception) -> None:
        raise error


def ask_all(requester: "DriverRequester", numbers: range) -> "asyncio.Future[None]":
    """One request after the other."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    left = iter(numbers)

    def ask(reply: "Reply | DriverError | None") -> None:
        if isinstance(reply, Exception):
            done.set_exception(reply)
            return
        for number in left:
            requester.ask(BODY, f"{number}", ask)
            return
        done.set_result(None)

    ask(None)
    return done


# Any: work trees before the contract by callbacks, whose classes are not imported here.
def lab_requests_by_coroutines(responder: Any, asking: list[Any]) -> Load:
    async def respond() -> None:
        while True:
            received = await responder.receive()
            await responder.reply(received.bodies.tolist(), wait=False)

    responding = asyncio.ensure_future(respond())

    async def load(number: int) -> None:
        assert not responding.done()
        shares = [range(first, number, len(asking)) for first in range(len(asking))]
        await asyncio.gather(*(ask(one, share) for one, share in zip(asking, shares, strict=True)))

    async def ask(requester: Any, share: range) -> None:
        for number in share:
            await requester.request(BODY, f"{number}")

    return load


async def requests(address: str) -> Load:
    """Round trips by the client library: one requester, and a responder that iterates over its consumer."""
    from mqlab.client import aio

    session = await (await aio.connect(address)).session()
    consumer = await session.consumer("queue:requests-" + address.split(":")[0])

    async def respond() -> None:
        async for request in consumer:
            await session.reply(request, request.body)

    asking = await (await aio.connect(address)).session()
    requester = await asking.requester(consumer.destination, reply_to=f"{consumer.destination}-replies")
    responding = asyncio.ensure_future(respond())

    async def load(number: int) -> None:
        assert not responding.done()
        for _ in range(number):
            await requester.request(BODY, 60)

    return load


async def single_sends(address: str) -> Load:
    """Single messages with headers, which the producer sends without waiting."""
    from mqlab.client import aio

    session = await (await aio.connect(address)).session()
    consumer = await session.consumer("queue:headers", prefetch=PREFETCH)
    producer = await (await (await aio.connect(address)).session()).producer("queue:headers")

    async def load(number: int) -> None:
        receiving = asyncio.gather(*[receive(number)])
        for _ in range(number):
            await producer.send(SMALL, correlation_id="abc", type="x")
        await receiving

    async def receive(number: int) -> None:
        for _ in range(number):
            await consumer.receive()

    return load


async def plain_sends(address: str, together: int) -> Load:
    """One call a message on either side. With `together`, the producer yields to the loop after so many messages."""
    from mqlab.client import aio

    name = f"queue:plain-{together}"
    consumer = await (await (await aio.connect(address)).session()).consumer(name, prefetch=PREFETCH)
    producer = await (await (await aio.connect(address)).session()).producer(name)

    async def load(number: int) -> None:
        receiving = asyncio.gather(*[receive(number)])
        for sent in range(1, number + 1):
            await producer.send(SMALL)
            if together and sent % together == 0:
                await asyncio.sleep(0)
        await receiving

    async def receive(number: int) -> None:
        left = number
        async for message in consumer:
            assert len(message.body) == len(SMALL)
            left -= 1
            if not left:
                return

    return load


async def blocking_sends(address: str) -> Load:
    """One call a message of the blocking API on either side, each in a thread."""
    from mqlab.client import connect

    connections = [await asyncio.to_thread(connect, address) for _ in range(2)]
    sessions = [await asyncio.to_thread(connection.session) for connection in connections]
    consumer = await asyncio.to_thread(sessions[0].consumer, "queue:blocking", prefetch=PREFETCH)
    producer = await asyncio.to_thread(sessions[1].producer, "queue:blocking")

    def send(number: int) -> None:
        for _ in range(number):
            producer.send(SMALL)
        producer.flush()

    def receive(number: int) -> None:
        for _, message in zip(range(number), consumer, strict=False):
            assert len(message.body) == len(SMALL)

    async def load(number: int) -> None:
        await asyncio.gather(asyncio.to_thread(send, number), asyncio.to_thread(receive, number))

    return load


async def persistent_sends(address: str, producers: int) -> Load:
    """Persistent messages, one by one: each producer waits for each confirmation, as in P and G of `peers.py`."""
    from mqlab.client import aio

    pairs = []
    for number in range(producers):
        name = f"queue:persistent-{producers}-{number}"
        consumer = await (await (await aio.connect(address)).session()).consumer(name, prefetch=PREFETCH)
        pairs.append((await (await (await aio.connect(address)).session()).producer(name), consumer))

    async def load(number: int) -> None:
        async def send_and_receive(producer: aio.Producer, consumer: aio.Consumer) -> None:
            for _ in range(number // producers):
                await producer.send(BODY, persistent=True)
                await consumer.receive()

        await asyncio.gather(*(send_and_receive(*pair) for pair in pairs))

    return load


async def driver_sends(protocol: str, address: str) -> Load:
    """Small messages that one producer sends to a topic without waiting, as in A of `protocols.py`."""
    sending, receiving = await lab_connections(protocol, address)
    name, size = f"topic:{protocol}", len(SMALL)
    receiver = await receiving.receiver(name, receiver_options())
    sender = await sending.sender(name, persistent=False, transacted=False)
    bodies = np.frombuffer(SMALL * DRIVER_CALL, dtype=np.uint8).reshape(DRIVER_CALL, size)

    async def load(number: int) -> None:
        taking = asyncio.ensure_future(take(receiver, number))
        for begin in range(0, number, DRIVER_CALL):
            await sender.send(bodies[: number - begin], wait=False)
        await taking

    return load


async def driver_pairs(protocol: str, address: str, pairs: int) -> Load:
    """Persistent messages, each confirmed before the next one of its producer, as in G of `protocols.py`."""
    sending, receiving = await lab_connections(protocol, address)
    bodies = np.zeros((1, len(BODY)), dtype=np.uint8)
    links = []
    for number in range(pairs):
        name = f"queue:{protocol}-{number}"
        receiver = await receiving.receiver(name, receiver_options())
        links.append((await sending.sender(name, persistent=True, transacted=False), receiver))

    async def load(number: int) -> None:
        each = number // pairs + 1

        async def send(sender: "Sender") -> None:
            for _ in range(each):
                await sender.send(bodies, wait=True)

        await asyncio.gather(*(work for sender, receiver in links for work in (send(sender), take(receiver, each))))

    return load


async def lab_connections(protocol: str, address: str) -> "tuple[DriverConnection, DriverConnection]":
    from mqlab.drivers import DRIVERS

    driver = DRIVERS[protocol](address, {"flavour": "mqlab"})
    return await driver.connect(), await driver.connect()


def receiver_options() -> "ReceiverOptions":
    from mqlab.drivers import ReceiverOptions

    return ReceiverOptions(PREFETCH)


async def take(receiver: "Receiver", left: int) -> None:
    while left > 0:
        left -= len((await receiver.receive()).bodies)


async def batches(address: str, rows: int, size: int) -> Load:
    from mqlab.client import aio
    from mqlab.wire.native.bodies import encode_equal

    data = np.zeros(rows * size, dtype=np.uint8)
    consumer = await (await (await aio.connect(address)).session()).consumer(f"topic:{size}", prefetch=8 * rows)
    producer = await (await (await aio.connect(address)).session()).producer(f"topic:{size}")

    async def load(number: int) -> None:
        receiving = asyncio.gather(*[receive(number * rows)])
        for _ in range(number):
            await producer.send_batch(encode_equal(data, rows))
        await receiving

    async def receive(left: int) -> None:
        while left:
            delivery = await consumer.receive_batch()
            assert delivery.bodies().table() is not None
            left -= delivery.rows

    return load


if __name__ == "__main__":
    tree = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(tree / "src"))
    import mqlab

    if not Path(mqlab.__file__).is_relative_to(tree):
        raise SystemExit(f"{tree}: its package is not the one that was imported: {mqlab.__file__}")
    with suppress(KeyboardInterrupt):
        uvloop.run(serve())
