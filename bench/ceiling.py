"""How near the broker comes to what the machine can move at all.

A, D: one producer, one consumer and the broker of scenarios A and D of jms-four-brokers, through the batch API (each
batch encoded, checked, delivered, decoded and acknowledged), over a bare relay: three processes that pass the very
same frames on and look at nothing. Both sides read into buffers of the same pool, so that both have them in the
processor's cache.
A_lab, D_lab: the same scenarios as the lab runs them, which also numbers, checks and records every message.
All of these are packed, on both sides of each ratio: 32,768 records a message in A, 1,024 in D.
A_per_message: message by message, by the plain API on either side, over a bare Python loop that builds such messages
and sends them in frames of the same size to a process that throws them away.
"""

import asyncio
import multiprocessing
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import SpawnProcess as Process
from multiprocessing.synchronize import Event
from typing import ClassVar, cast

import numpy as np
import uvloop

from _common import arguments, finish, interleaved, medians, ratio
from _lab import Lab, scenario
from mqlab.client import aio, connect
from mqlab.study import Point
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import encode_equal
from mqlab.wire.native.frames import Kind
from mqlab.wire.receive_buffers import receive_buffer

spawn = multiprocessing.get_context("spawn")
_READ = 1024 * 1024


def end(*processes: Process) -> None:
    for process in processes:
        process.join(3)
        process.kill()
        process.join()


def frame_of(point: Point) -> bytes:
    """A SEND frame as scenario `point` has them on the wire."""
    payload = encode_equal(np.zeros(point.batch * point.size, dtype=np.uint8), point.batch)
    return native.header(Kind.SEND, link=1, amount=point.batch, length=len(payload.data)) + bytes(payload.data)


class _Relay(asyncio.BufferedProtocol):
    """Passes on what comes from the first connection to the second."""

    sides: ClassVar[list["_Relay"]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.sides.append(self)
        self.transport.set_write_buffer_limits(high=_READ)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        # Not a buffer that still waits to be written: the pool knows by its views.
        self.buffer = receive_buffer(_READ // 4)
        return self.buffer

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        for side in self.sides:
            side.transport.close()

    def buffer_updated(self, size: int) -> None:
        self.sides[1].transport.write(self.buffer[:size])

    def pause_writing(self) -> None:
        self.sides[0].transport.pause_reading()

    def resume_writing(self) -> None:
        self.sides[0].transport.resume_reading()


def relay(pipe: Pipe) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(_Relay, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        while len(_Relay.sides) < 2 or not _Relay.sides[0].transport.is_closing():
            await asyncio.sleep(0.05)

    uvloop.run(main())


def push(port: int, frame: bytes, first: Event, second: Event) -> None:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        first.set()
        second.wait()
        with suppress(ConnectionError):  # the other side leaves when it has counted enough
            while True:
                sock.sendall(frame)


def pull(port: int, frame: int, rows: int, seconds: float, pipe: Pipe, first: Event, second: Event) -> None:
    room = bytearray(_READ)
    first.wait()
    with socket.create_connection(("127.0.0.1", port)) as sock:
        time.sleep(0.1)  # until the relay has accepted this side too
        second.set()
        sock.recv_into(room, 1)
        begin = time.monotonic() + 0.3
        counted = 0
        while (now := time.monotonic()) < begin + seconds:
            size = sock.recv_into(room)
            if now >= begin:
                counted += size
        pipe.send(counted / frame * rows / seconds)


def bare_relay(point: Point) -> float:
    """Messages a second if their frames are only passed on."""
    frame, seconds = frame_of(point), point.phases.measure
    here, there = spawn.Pipe()
    relaying = spawn.Process(target=relay, args=(there,))
    relaying.start()
    port = here.recv()
    first, second = spawn.Event(), spawn.Event()
    pushing = spawn.Process(target=push, args=(port, frame, first, second))
    pulling = spawn.Process(target=pull, args=(port, len(frame), point.batch, seconds, there, first, second))
    pushing.start()
    pulling.start()
    rate: float = here.recv()
    end(pulling, relaying, pushing)
    return rate


def produce_batches(address: str, rows: int, size: int) -> None:
    async def main() -> None:
        connection = await aio.connect(address)
        producer = await (await connection.session()).producer("topic:batches")
        bodies = np.zeros(rows * size, dtype=np.uint8)
        while True:
            await producer.send_batch(encode_equal(bodies, rows))

    uvloop.run(main())


def consume_batches(address: str, rows: int, size: int, seconds: float, pipe: Pipe) -> None:
    async def main() -> None:
        connection = await aio.connect(address)
        consumer = await (await connection.session()).consumer("topic:batches", prefetch=15 * rows)
        pipe.send("ready")
        await consumer.receive_batch()
        begin, counted = time.monotonic() + 0.3, 0
        while (now := time.monotonic()) < begin + seconds:
            bodies = (await consumer.receive_batch()).bodies()
            if bodies.nbytes != len(bodies) * size:
                raise AssertionError("not the messages that were sent")
            if now >= begin:
                counted += len(bodies)
        pipe.send(counted / seconds)

    uvloop.run(main())


def by_batches(address: str, point: Point) -> float:
    here, there = spawn.Pipe()
    consuming = spawn.Process(
        target=consume_batches, args=(address, point.batch, point.size, point.phases.measure, there)
    )
    consuming.start()
    here.recv()
    producing = spawn.Process(target=produce_batches, args=(address, point.batch, point.size))
    producing.start()
    rate: float = here.recv()
    producing.kill()
    end(consuming, producing)
    return rate


def produce_plainly(address: str, size: int, seconds: float) -> None:
    with connect(address) as connection:
        producer = connection.session().producer("topic:plain")
        number, pack = 0, struct.Struct("<IQ").pack
        filler = bytes(size - 12)
        end = time.monotonic() + seconds + 1
        while time.monotonic() < end:
            for _ in range(1000):
                producer.send(pack(1, number) + filler)
                number += 1
        producer.flush()


def consume_plainly(address: str, seconds: float, pipe: Pipe) -> None:
    with connect(address) as connection:
        consumer = connection.session().consumer("topic:plain", prefetch=32768)
        pipe.send("ready")
        messages = iter(consumer)
        next(messages)
        time.sleep(0.3)
        counted, begin = 0, time.monotonic()
        while (now := time.monotonic()) < begin + seconds:
            for _ in range(1000):
                if len(next(messages).body) != 12:
                    raise AssertionError("not the message that was sent")
            counted += 1000
        pipe.send(counted / (now - begin))


def per_message(address: str, seconds: float) -> float:
    here, there = spawn.Pipe()
    consuming = spawn.Process(target=consume_plainly, args=(address, seconds, there))
    consuming.start()
    here.recv()
    producing = spawn.Process(target=produce_plainly, args=(address, 12, seconds))
    producing.start()
    rate: float = here.recv()
    end(consuming, producing)
    return rate


def throw_away(pipe: Pipe) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        pipe.send(server.getsockname()[1])
        sock, _ = server.accept()
        room = bytearray(_READ)
        while sock.recv_into(room):
            pass


def bare_loop(seconds: float) -> float:
    """Messages a second that plain Python builds one by one and sends in frames of 4096."""
    here, there = spawn.Pipe()
    sink = spawn.Process(target=throw_away, args=(there,))
    sink.start()
    with socket.create_connection(("127.0.0.1", here.recv())) as sock:
        number, pack, rows = 0, struct.Struct("<IQ").pack, 4096
        begin = time.monotonic()
        while (now := time.monotonic()) < begin + seconds:
            frame = []
            for _ in range(rows):
                frame.append(pack(1, number))
                number += 1
            sock.sendall(native.header(Kind.SEND, amount=rows, length=rows * 12) + b"".join(frame))
    sink.join(5)
    return number / (now - begin)


def main() -> None:
    chosen = arguments(__doc__ or "")
    seconds = 0.1 if chosen.smoke else 0.6 if chosen.quick else 3.0
    small, large = scenario("A", measure=seconds, batch=32768), scenario("D", measure=seconds, batch=1024)
    large_sides: dict[str, Callable[[], float]] = {
        "D": lambda: by_batches(address, large),
        "D_lab": lambda: lab.rate(large, f"embedded:packed={large.batch}"),
        "D_bare": lambda: bare_relay(large),
    }
    with Lab() as lab:
        lab.rate(scenario("A", measure=0.3))  # the broker is up, the agents are warm
        address = lab.running().address
        found = interleaved(
            {
                "A": lambda: by_batches(address, small),
                "A_bare": lambda: bare_relay(small),
                "A_lab": lambda: lab.rate(small, f"embedded:packed={small.batch}"),
                # As those of A, with larger messages: nothing else that could fail.
                **({} if chosen.smoke else large_sides),
                "A_per_message": lambda: per_message(address, seconds),
                "A_bare_loop": lambda: bare_loop(seconds),
            },
            chosen.rounds or (3 if chosen.quick else 7),
        )
    finish(
        A=ratio(found["A"], found["A_bare"]),
        **{name: ratio(found[name], found["D_bare"]) for name in ("D", "D_lab") if name in found},
        A_lab=ratio(found["A_lab"], found["A_bare"]),
        A_per_message=ratio(found["A_per_message"], found["A_bare_loop"]),
        messages_per_second=medians(found),
    )


if __name__ == "__main__":
    main()
