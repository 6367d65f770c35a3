"""Helpers that send and receive messages in the feature tests."""

import pytest

from mqlab.client import aio


def numbers(begin: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(begin, end)]


async def receive(consumer: aio.Consumer, count: int) -> list[bytes]:
    return [(await consumer.receive(timeout=240)).body for _ in range(count)]


async def assert_no_messages(connection: aio.Connection, *consumers: aio.Consumer) -> None:
    """Check that the broker sends these consumers nothing: deliveries arrive before the answer to `status`."""
    await connection.status()
    for consumer in consumers:
        with pytest.raises(TimeoutError):
            await consumer.receive(timeout=0)
