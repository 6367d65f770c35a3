"""Small steps that the tests of features share."""

import pytest

from mqlab.client import aio


def numbers(begin: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(begin, end)]


async def receive(consumer: aio.Consumer, count: int) -> list[bytes]:
    return [(await consumer.receive(timeout=30)).body for _ in range(count)]


async def nothing_for(connection: aio.Connection, *consumers: aio.Consumer) -> None:
    """Whatever the broker had for these consumers of the connection is here before the answer to a question."""
    await connection.status()
    for consumer in consumers:
        with pytest.raises(TimeoutError):
            await consumer.receive(timeout=0)
