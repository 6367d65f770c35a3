"""How near the broker comes to what the machine can move at all.

A, D: one producer, one consumer and the broker of scenarios A and D of jms-four-brokers, through the batch API (each
batch encoded, checked, delivered, decoded and acknowledged), over a bare relay: three processes that pass the very
same frames on and look at nothing. Both sides read into buffers of the same pool, so that both have them in the
processor's cache.
A_lab, D_lab: the same scenarios as the lab runs them, which also numbers, checks and records every message.
All of these are packed, on both sides of each ratio: 32,768 records a message in A, 1,024 in D.
A_per_message: message by message, by the plain API on either side, over a bare Python loop that builds message by
message too, without ids and timestamps, and coalesces as many in a frame as the client library does at most; it sends
the frames to a process that throws them away.
RR1, RR8, P: those of `peers.py` on the embedded broker as the lab plays them, message by message, every message checked
and recorded, and without `busy_wait`; over a bare relay of the same round trips (`_bare_relay.py`), which in P writes
and syncs each message as the broker's store does. Both sides have one process with all requesters on one connection and
one with the responder; in P one with the sender and one with the consumer.
"""

import asyncio
import multiprocessing
import socket
import struct
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import SpawnProcess as Process
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import ClassVar, Unpack, cast

import numpy as np
import uvloop

import _bare_relay
from _common import arguments, finish, interleaved, medians, ratio
from _lab import Lab, scenario
from mqlab.client import aio, connect
from mqlab.client.headers import Headers, MessageEncoder, ProducerDefaults
from mqlab.client.producer import MAX_ROWS
from mqlab.study import Point
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import encode_equal
from mqlab.wire.native.frames import Kind
from mqlab.wire.receive_buffers import receive_buffer
from peers import WAITING, points

spawn = multiprocessing.get_context("spawn")
_READ = 1024 * 1024
WARM_UP = 0.3
# What each key is compared with.
BARE = {
    "A": "A_bare", "D": "D_bare", "A_lab": "A_bare", "D_lab": "D_bare", "A_per_message": "A_bare_loop",
    "RR1": "RR1_bare", "RR8": "RR8_bare", "P": "P_bare",
}  # fmt: skip


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


def produce_plainly(address: str, size: int) -> None:
    """Send until the process is ended: the consumer decides how long it counts."""
    with connect(address) as connection:
        producer = connection.session().producer("topic:plain")
        number, pack = 0, struct.Struct("<IQ").pack
        filler = bytes(size - 12)
        while True:
            producer.send(pack(1, number) + filler)
            number += 1


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
    producing = spawn.Process(target=produce_plainly, args=(address, 12))
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
    """Messages a second that plain Python builds message by message, and coalesces as the client library does."""
    here, there = spawn.Pipe()
    sink = spawn.Process(target=throw_away, args=(there,))
    sink.start()
    with socket.create_connection(("127.0.0.1", here.recv())) as sock:
        number, pack, rows = 0, struct.Struct("<IQ").pack, MAX_ROWS
        begin = time.monotonic()
        while (now := time.monotonic()) < begin + seconds:
            frame = []
            for _ in range(rows):
                frame.append(pack(1, number))
                number += 1
            sock.sendall(native.header(Kind.SEND, amount=rows, length=rows * 12) + b"".join(frame))
    sink.join(5)
    return number / (now - begin)


def message_frame(size: int, **headers: Unpack[Headers]) -> int:
    """The bytes of a message of the lab on the wire; it has an id and a timestamp."""
    message = MessageEncoder(ProducerDefaults()).message(bytes(size), headers, None)
    return native.HEADER_SIZE + len(message.data)


def bare_round_trips(point: Point) -> float:
    """Round trips a second if a relay only passes them on; the headers are as long as those of the lab."""
    request = message_frame(point.size, correlation_id="0-10000", reply_to="queue:run-10-queue-1")
    reply = message_frame(point.size, correlation_id="0-10000")
    return _bare_relay.round_trips(point.requesters, request, reply, point.phases.measure)


def bare_confirmed_sends(point: Point) -> float:
    """Messages a second that a relay syncs one by one, on the file system of the lab's brokers."""
    with tempfile.TemporaryDirectory(prefix="mqlab-bench-") as folder:
        return _bare_relay.confirmed_sends(
            Path(folder), message_frame(point.size), native.HEADER_SIZE, point.phases.measure
        )


def sides(lab: Lab, seconds: float) -> dict[str, Callable[[], float]]:
    """What each key and what it is compared with measures."""
    address = lab.running().address
    small, large = scenario("A", measure=seconds, batch=32768), scenario("D", measure=seconds, batch=1024)
    waiting = {name: point for name, point in points(seconds, WARM_UP).items() if name in WAITING}
    return {
        "A": lambda: by_batches(address, small),
        "A_bare": lambda: bare_relay(small),
        "A_lab": lambda: lab.rate(small, f"embedded:packed={small.batch}"),
        "D": lambda: by_batches(address, large),
        "D_lab": lambda: lab.rate(large, f"embedded:packed={large.batch}"),
        "D_bare": lambda: bare_relay(large),
        "A_per_message": lambda: per_message(address, seconds),
        "A_bare_loop": lambda: bare_loop(seconds),
        **{name: partial(lab.rate, point) for name, point in waiting.items()},
        "RR1_bare": lambda: bare_round_trips(waiting["RR1"]),
        "RR8_bare": lambda: bare_round_trips(waiting["RR8"]),
        "P_bare": lambda: bare_confirmed_sends(waiting["P"]),
    }


def main() -> None:
    chosen = arguments(__doc__ or "", key="only this one")
    seconds = 0.1 if chosen.smoke else 0.5 if chosen.quick else 3.0
    keys = [key for key in BARE if not chosen.key or key in chosen.key]
    if chosen.smoke:
        keys = ["A", "A_lab", "A_per_message", "RR1", "P"]  # the others differ by numbers alone
    with Lab() as lab:
        lab.rate(scenario("A", measure=0.3))  # the broker is up, the agents are warm
        measured = {name for key in keys for name in (key, BARE[key])}
        found = interleaved(
            {name: side for name, side in sides(lab, seconds).items() if name in measured},
            chosen.rounds or (2 if chosen.quick else 7),
        )
    finish(**{key: ratio(found[key], found[BARE[key]]) for key in keys}, messages_per_second=medians(found))


if __name__ == "__main__":
    main()
