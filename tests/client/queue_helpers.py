"""Fills a queue with messages, and counts those that are left."""

from broker.server.raw_client import client
from features.message_helpers import numbers
from mqlab.client import aio
from mqlab.wire.address import Address
from mqlab.wire.native.bodies import encode


async def filled(address: Address, count: int = 10) -> aio.Connection:
    """A client of a broker with so many messages on queue:q."""
    connection = await client(address)
    producer = await (await connection.session()).producer("queue:q")
    await producer.send_batch(encode(numbers(0, count)), confirm=True)
    return connection


async def left(connection: aio.Connection) -> int:
    return int((await connection.status())["messages"])
