"""What a real server does not do when it is asked; the rest is in tests/systems/test_redis.py."""

import asyncio
from collections.abc import Awaitable, Callable

import numpy as np
import pytest
import uvloop

from drivers.fake_server import Play, fake_server
from mqlab.drivers import DRIVERS, DriverConnection, DriverError, ReceiverOptions, Sender

BODIES = np.arange(24, dtype=np.uint8).reshape(2, 12)


def run(play: Play, test: Callable[[DriverConnection], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(240), fake_server(play) as address:
            connection = await DRIVERS["resp"](address).connect("test")
            try:
                await test(connection)
            finally:
                await connection.close()

    uvloop.run(main())


async def send_for_ever(sender: Sender) -> None:
    while True:
        await sender.send(BODIES, wait=True)


def test_replies_tell_what_is_taken() -> None:
    goes_on = asyncio.Event()

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answered = 0
        while line := await reader.readline():
            words = []
            for _ in range(int(line[1:])):
                size = int((await reader.readline())[1:])
                words.append((await reader.readexactly(size + 2))[:-2])
            answered += words[0] == b"PUBLISH"
            if answered == 2:
                await goes_on.wait()
            writer.write(b"+OK\r\n" if words[0] == b"CLIENT" else b":%d\r\n" % (words[0] == b"PUBLISH"))

    async def test(connection: DriverConnection) -> None:
        sender = await connection.sender("topic:t", persistent=False, transacted=False)
        await sender.send(BODIES, wait=False)
        await sender.wait_accepted(1)
        waiting = asyncio.ensure_future(sender.wait_accepted(0))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        goes_on.set()
        await waiting
        await sender.close()

    run(play, test)


def server(**answers: bytes) -> Play:
    """Answers each command by its first word, others with OK; without an answer it closes the connection."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            words = []
            for _ in range(int(line[1:])):
                size = int((await reader.readline())[1:])
                words.append((await reader.readexactly(size + 2))[:-2])
            answer = answers.get(words[0].decode(), b"+OK\r\n")
            if not answer:
                return
            writer.write(answer)

    return play


def test_a_refused_login_is_told() -> None:
    async def test(_: DriverConnection) -> None:
        raise AssertionError("it is connected")

    with pytest.raises(DriverError, match="NOAUTH"):
        run(server(CLIENT=b"-NOAUTH Authentication required.\r\n"), test)


def test_a_refused_message_is_heard() -> None:
    async def test(connection: DriverConnection) -> None:
        waits, free = [await connection.sender("topic:t", persistent=False, transacted=False) for _ in range(2)]
        with pytest.raises(DriverError, match="OOM"):
            await waits.send(BODIES, wait=True)
        await free.send(BODIES, wait=False)
        with pytest.raises(DriverError, match="OOM"):
            await free.close()

    run(server(EXISTS=b":0\r\n", PUBLISH=b"-OOM no memory\r\n"), test)


@pytest.mark.parametrize("answer", [b"*-1\r\n", b"*2\r\n+OK\r\n-ERR no\r\n", b"-EXECABORT discarded\r\n"])
def test_a_transaction_that_did_not_happen_is_heard(answer: bytes) -> None:
    async def test(connection: DriverConnection) -> None:
        sender = await connection.sender("queue:q", persistent=True, transacted=True)
        await sender.send(BODIES, wait=False)
        with pytest.raises(DriverError):
            await sender.commit()

    run(server(XADD=b"+QUEUED\r\n", EXEC=answer), test)


def test_a_server_that_goes_away_ends_all_waiting() -> None:
    async def test(connection: DriverConnection) -> None:
        receiver = await connection.receiver("queue:q", ReceiverOptions(10))
        with pytest.raises(DriverError, match="closed the connection"):
            await receiver.receive()

    run(server(CLIENT=b":1\r\n", SPOP=b"*0\r\n", XREADGROUP=b""), test)


def test_a_server_that_goes_away_ends_the_search_for_a_responder() -> None:
    searches = 0

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal searches
        while line := await reader.readline():
            words = []
            for _ in range(int(line[1:])):
                size = int((await reader.readline())[1:])
                words.append((await reader.readexactly(size + 2))[:-2])
            searches += words[0] == b"PUBSUB"
            if searches == 2:
                return
            writer.write(b"*0\r\n" if words[0] == b"PUBSUB" else b"+OK\r\n")

    async def test(connection: DriverConnection) -> None:
        requester = await connection.requester("queue:q", "queue:r", persistent=False)
        with pytest.raises(DriverError, match="closed the connection"):
            await requester.request(b"1", "1-1")

    run(play, test)


def test_replies_to_nothing_end_the_connection() -> None:
    async def test(connection: DriverConnection) -> None:
        sender = await connection.sender("topic:t", persistent=False, transacted=False)
        with pytest.raises(DriverError, match="a reply without a command"):
            await send_for_ever(sender)

    run(server(EXISTS=b":0\r\n", PUBLISH=b":1\r\n:1\r\n"), test)


def test_a_destination_is_a_queue_or_a_topic() -> None:
    async def test(connection: DriverConnection) -> None:
        with pytest.raises(DriverError, match="not a destination"):
            await connection.sender("shelf:x", persistent=False, transacted=False)

    run(server(), test)
