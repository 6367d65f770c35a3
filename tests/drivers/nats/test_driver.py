"""What a real server does not do when it is asked; the rest is in tests/systems/test_nats.py."""

import asyncio
from collections.abc import Awaitable, Callable

import numpy as np
import pytest
import uvloop

from drivers.fake_server import Play, fake_server
from mqlab.drivers import DRIVERS, DriverConnection, DriverError, ReceiverOptions
from mqlab.drivers.nats.client import NatsNames, escaped

BODIES = np.arange(24, dtype=np.uint8).reshape(2, 12)


def run(play: Play, test: Callable[[DriverConnection], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(240), fake_server(play) as address:
            connection = await DRIVERS["nats"](address).connect("test")
            try:
                await test(connection)
            finally:
                await connection.close()

    uvloop.run(main())


def server(*answers: bytes, info: bytes = b"{}") -> Play:
    """Greets, answers PING, and each PUB with the next of these."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"INFO " + info + b"\r\n")
        left = [*answers]
        while line := await reader.readline():
            if line == b"PING\r\n":
                writer.write(b"PONG\r\n")
            elif line.startswith(b"PUB "):
                *_, reply, size = line.split()
                await reader.readexactly(int(size) + 2)
                if left:
                    writer.write(left.pop(0).replace(b"REPLY", reply))

    return play


def test_the_words_of_a_server_that_ends_the_connection_are_told() -> None:
    async def test(connection: DriverConnection) -> None:
        receiver = await connection.receiver("topic:t", ReceiverOptions(10))
        sender = await connection.sender("topic:t", persistent=False, transacted=False)
        await sender.send(BODIES, wait=False)
        with pytest.raises(DriverError, match="Slow Consumer"):
            await receiver.receive()
        with pytest.raises(DriverError, match="Slow Consumer"):
            await sender.close()

    run(server(b"-ERR 'Slow Consumer'\r\n"), test)


def test_what_is_no_nats_ends_the_connection() -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()

    async def test(_: DriverConnection) -> None:
        raise AssertionError("it is connected")

    with pytest.raises(DriverError, match="HTTP"):
        run(play, test)


def test_what_comes_after_the_receiver_was_closed_keeps_no_answer_back() -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"INFO {}\r\n")
        sid = b""
        while line := await reader.readline():
            if line.startswith(b"SUB "):
                _, subject, *_, sid = line.split()
            elif line.startswith(b"UNSUB "):
                # Reads of any size, each a message that nobody takes any more.
                for _ in range(200):
                    writer.write(b"MSG %s %s 100000\r\n%b\r\n" % (subject, sid, bytes(100_000)))
                    await writer.drain()
            elif line == b"PING\r\n":
                writer.write(b"PONG\r\n")

    async def test(connection: DriverConnection) -> None:
        receiver = await connection.receiver("topic:t", ReceiverOptions(10))
        await receiver.close()

    run(play, test)


def test_a_pong_tells_what_is_taken() -> None:
    pings = 0
    goes_on = asyncio.Event()

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal pings
        writer.write(b"INFO {}\r\n")
        while line := await reader.readline():
            if line == b"PING\r\n":
                pings += 1
                if pings > 1:
                    await goes_on.wait()
                writer.write(b"PONG\r\n")

    async def test(connection: DriverConnection) -> None:
        sender = await connection.sender("topic:t", persistent=False, transacted=False)
        for _ in range(3):
            await sender.send(BODIES, wait=False)
        await sender.wait_accepted(6)
        waiting = asyncio.ensure_future(sender.wait_accepted(5))
        await asyncio.sleep(0.02)
        assert (pings, waiting.done()) == (2, False)
        goes_on.set()
        await waiting
        await sender.close()
        # Nothing was sent since.
        assert pings == 2

    run(play, test)


def test_without_jetstream_nothing_is_persistent() -> None:
    async def test(connection: DriverConnection) -> None:
        with pytest.raises(DriverError, match="JetStream is not enabled"):
            await connection.sender("queue:q", persistent=True, transacted=False)

    run(server(), test)


def test_a_stream_that_refuses_a_message_is_heard() -> None:
    made = b"MSG REPLY 1000 2\r\n{}\r\n"
    words = b'{"error":{"code":503,"description":"no space"}}'
    refusal = b"MSG REPLY 1001 %d\r\n%s\r\n" % (len(words), words)

    async def test(connection: DriverConnection) -> None:
        sender = await connection.sender("queue:q", persistent=True, transacted=False)
        with pytest.raises(DriverError, match="no space"):
            await sender.send(BODIES, wait=True)

    run(server(made, made, refusal, info=b'{"jetstream":true}'), test)


def test_a_request_that_nobody_answers_ends() -> None:
    async def test(connection: DriverConnection) -> None:
        requester = await connection.requester("queue:q", "queue:r", persistent=False)
        with pytest.raises(DriverError, match="no responder"):
            await requester.request(b"body", "1")

    run(server(b"HMSG REPLY 1000 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"), test)


def test_names_that_no_subject_may_have_are_written_otherwise() -> None:
    assert NatsNames.of("queue:run-3-queue-0").stored == "stored.queue.run-3-queue-0"
    assert NatsNames.of("topic:a.b *>é").subject == "topic.a=2eb=20=2a=3e=c3=a9"
    assert len({escaped(name) for name in ("a.b", "a=2eb", "a b", "a_b", "a-b")}) == 5
    with pytest.raises(DriverError):
        NatsNames.of("shelf:x")
