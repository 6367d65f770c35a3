"""A broker in its own process ends a connection that sends noise, goes on with all others, and ends on SIGTERM."""

import asyncio
import random
import socket
from pathlib import Path

import pytest
import uvloop

from features.broker_process import BrokerProcess
from mqlab.broker import limits
from mqlab.client import aio

CHUNK = 64 * 1024
# Around the room for a greeting, and around what a receiver takes at once and the loop reads at once.
LENGTHS = [
    length + more
    for length in (24, limits.FRAME_BEFORE_HELLO, limits.FRAME_BEFORE_HELLO + 24, CHUNK, 2 * CHUNK, 4 * CHUNK)
    for more in (-1, 0, 1)
]


def noise(length: int, seed: int) -> bytes:
    # Not the beginning of a frame of STOMP or of a request of HTTP.
    return b"\xfe" + random.Random(seed).randbytes(length - 1)


async def send(path: str, data: bytes) -> None:
    """All of it at once, and then read to the end; the broker may end the connection before it has read all."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as peer:
        peer.setblocking(False)
        await loop.sock_connect(peer, path)
        try:
            await loop.sock_sendall(peer, data)
            peer.shutdown(socket.SHUT_WR)
            while await loop.sock_recv(peer, CHUNK):
                pass
        except ConnectionError:
            pass


async def exchange(address: str) -> None:
    async with await aio.connect(address) as connection:
        session = await connection.session()
        producer, consumer = await session.producer("queue:q"), await session.consumer("queue:q")
        await producer.send(b"still there")
        assert (await consumer.receive(60)).body == b"still there"


@pytest.mark.parametrize("zeros", [False, True])
def test_noise_before_login_of_any_length_ends_its_connection_and_nothing_else(tmp_path: Path, zeros: bool) -> None:
    async def attack() -> None:
        async with BrokerProcess(tmp_path) as broker:
            path = broker.address.removeprefix("unix:")
            for seed, length in enumerate(LENGTHS):
                data = bytes(length) if zeros else noise(length, seed)
                async with asyncio.timeout(240):
                    await send(path, data)
            async with asyncio.timeout(240):
                await exchange(broker.address)
                await broker.stop()
        assert "Traceback" not in (tmp_path / "stderr").read_text()

    uvloop.run(attack())
