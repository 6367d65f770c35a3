"""Every protocol of the broker is fuzzed through its real listeners: whatever comes, all others notice nothing.

MQLAB_TORTURE=1 tries a hundred times as much. A failure prints the seeds of its batch.
"""

import asyncio
import os
import random
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import uvloop

from .amqp_payloads import amqp_after, amqp_before, amqp_header
from .mqtt_payloads import mqtt_after, mqtt_before, mqtt_connect
from .payloads import (
    Login,
    http,
    native_after,
    native_before,
    native_hello,
    stomp_after,
    stomp_before,
    stomp_connect,
    websocket_after,
    websocket_before,
    websocket_request,
)
from .target import PATIENCE_SECONDS, Target, exchange

TORTURE = bool(os.environ.get("MQLAB_TORTURE"))
BATCHES, TRIES, AT_ONCE = 200 if TORTURE else 3, 50, 5
# A client that the broker holds back gives up.
HELD_SECONDS = 2.0
Record = Callable[[str, object], None]
Before = Callable[[random.Random, Login], bytes]
After = Callable[[random.Random, Login], list[bytes]]


def pieces(chance: random.Random, login: Login) -> tuple[str, list[bytes]]:
    """A protocol, and what is sent: the first piece alone, until it is answered."""
    protocol = chance.choice(("native", "stomp", "mqtt", "amqp") * 2 + ("websocket", "http"))
    after = chance.random() < 0.5
    if protocol == "http":
        return protocol, http(chance, login)
    speaking: dict[str, tuple[Before, Callable[[Login], bytes], After]] = {
        "native": (native_before, native_hello, native_after), "stomp": (stomp_before, stomp_connect, stomp_after),
        "websocket": (websocket_before, websocket_request, websocket_after),
        "mqtt": (mqtt_before, partial(mqtt_connect, chance), mqtt_after),
        "amqp": (amqp_before, amqp_header, amqp_after),
    }  # fmt: skip
    before, opening, following = speaking[protocol]
    return protocol, [opening(login), *following(chance, login)] if after else [before(chance, login)]


def split(chance: random.Random, data: bytes) -> list[bytes]:
    """In one write, or cut anywhere."""
    if len(data) < 2 or chance.random() < 0.6:
        return [data]
    cuts = sorted(chance.randrange(len(data)) for _ in range(chance.randrange(1, 4)))
    return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


async def attack(target: Target, seed: int) -> None:
    """One connection. How it ends is the broker's business; a producer that the broker holds back stays for a while."""
    chance = random.Random(seed)
    protocol, said = pieces(chance, target.login if chance.random() < 0.8 else {})
    tls = protocol != "http" and chance.random() < 0.2
    port = target.metrics_port if protocol == "http" else target.tls_port if tls else target.port
    with suppress(OSError):
        # From many addresses of this machine: one whose logins fail again and again is kept out.
        from_address = (f"127.0.{seed // 50 % 250 + 1}.{seed % 50 + 1}", 0)
        context = target.tls_context() if tls else None
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, local_addr=from_address)
        try:
            await converse(chance, reader, writer, said)
        finally:
            writer.transport.abort()


async def converse(
    chance: random.Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: list[bytes]
) -> None:
    if len(said) > 1:
        writer.write(said.pop(0))
        await asyncio.wait_for(reader.read(4096), PATIENCE_SECONDS)
    for piece in said:
        for part in split(chance, piece):
            writer.write(part)
            async with asyncio.timeout(HELD_SECONDS):
                await writer.drain()
    ending = chance.randrange(3)
    if ending == 0:
        return
    if writer.can_write_eof():
        writer.write_eof()
        # The broker ends what the client has ended; what it was owed is read to the end.
        limit = 0 if ending == 1 else 8 * 1024 * 1024
        async with asyncio.timeout(HELD_SECONDS):
            while limit > 0 and (data := await reader.read(1 << 16)):
                limit -= len(data)


async def batch(target: Target, begin: int, tries: int) -> None:
    waiting = iter(range(begin, begin + tries))

    async def one_after_the_other() -> None:
        for seed in waiting:
            await attack(target, seed)

    await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await exchange(target, begin)


@pytest.mark.parametrize("users", [False, True])
def test_whatever_comes_over_a_socket(tmp_path: Path, users: bool, record_property: Record) -> None:
    # Every second broker is observed as closely as can be.
    target = Target(tmp_path, users=users, traced=users).start()
    begin = 1_000_000 * users
    try:
        for number in range(BATCHES):
            first = begin + number * TRIES
            try:
                uvloop.run(batch(target, first, TRIES))
            except BaseException as error:
                error.add_note(f"seeds {first} to {first + TRIES - 1}, users: {users}\n{target.log()}")
                raise
            assert not target.tracebacks(), f"seeds {first} to {first + TRIES - 1}:\n{target.log()}"
            record_property("tries", TRIES)
        target.end()
        assert not target.tracebacks(), target.log()
    finally:
        target.kill()


def test_noise_over_tls_before_a_login(tmp_path: Path) -> None:
    target = Target(tmp_path).start()
    try:
        for length in (65_536, 65_537, 131_073):
            plain = socket.create_connection(("127.0.0.1", target.tls_port), PATIENCE_SECONDS)
            with target.tls_context().wrap_socket(plain) as peer, suppress(OSError):
                peer.sendall(b"\xfe" * length)
                while peer.recv(4096):
                    pass
        uvloop.run(exchange(target, 1))
        target.end()
        assert not target.tracebacks(), target.log()
    finally:
        target.kill()
