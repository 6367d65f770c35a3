"""A connection is closed while the broker does not read: what was sent has left when `close` returns."""

import asyncio
from pathlib import Path

import pytest

from broker.server.raw_client import in_loop
from features.broker_process import BrokerProcess
from mqlab.client import aio
from mqlab.client import connection as client_connection
from mqlab.client.errors import MessagingError

# More than a socket holds, and less than the broker's credit.
MESSAGES = 3000
BODY = bytes(1024)


async def _send_to_frozen(broker: BrokerProcess) -> aio.Connection:
    connection = await aio.connect(broker.address)
    producer = await (await connection.session()).producer("queue:q")
    broker.freeze()
    for _ in range(MESSAGES):
        await producer.send(BODY)
    return connection


@in_loop
async def test_close_returns_when_everything_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_connection, "_CLOSE_NOTIFICATION_S", 0.01)
    monkeypatch.setattr(aio, "CLOSE_TIMEOUT_S", 240)
    async with BrokerProcess(tmp_path) as broker:
        closing = asyncio.ensure_future((await _send_to_frozen(broker)).close())
        await asyncio.wait([closing], timeout=0.1)
        assert not closing.done()
        broker.thaw()
        await closing
        watching = await aio.connect(broker.address)
        while (await watching.status())["connections"] > 1:
            await asyncio.sleep(0)
        assert (await watching.ask("show", name="queue:q"))["messages"] == MESSAGES
        await watching.close()


@in_loop
async def test_close_says_what_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_connection, "_CLOSE_NOTIFICATION_S", 0.01)
    monkeypatch.setattr(aio, "CLOSE_TIMEOUT_S", 0.1)
    async with BrokerProcess(tmp_path) as broker:
        connection = await _send_to_frozen(broker)
        with pytest.raises(MessagingError, match="the last messages are unsent: the broker does not read"):
            await connection.close()
