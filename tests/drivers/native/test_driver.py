import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest
import uvloop

from mqlab.broker.server.startup import running
from mqlab.broker.settings import Settings
from mqlab.client import aio
from mqlab.drivers import DRIVERS, DriverConnection, DriverError, Receiver, ReceiverOptions, Sender
from mqlab.drivers.api import Matrix

Connect = Callable[[], Awaitable[DriverConnection]]
Play = Callable[[DriverConnection], Awaitable[None]]


def bodies(*firsts: int, size: int = 12) -> Matrix:
    """Message i is filled with its number."""
    return np.array([[first] * size for first in firsts], dtype=np.uint8)


async def received(receiver: Receiver, rows: int) -> list[bytes]:
    """The bodies of so many messages, none of them redelivered."""
    found: list[bytes] = []
    while len(found) < rows:
        arrival = await receiver.receive()
        assert not arrival.redelivered
        found += arrival.bodies.tolist()
    return found


async def send_for_ever(sender: Sender, some: Matrix) -> None:
    while True:
        await sender.send(some, wait=False)


def near_a_broker(tmp_path: Path, play: Callable[[Connect], Awaitable[None]], **settings: object) -> None:
    async def main() -> None:
        chosen = Settings.flat(data=tmp_path / "data", listen=("tcp:127.0.0.1:0",), **settings)
        async with asyncio.timeout(240), running(chosen) as (_, (address,)):
            await play(DRIVERS["native"](str(address)).connect)

    uvloop.run(main())


def with_a_broker(tmp_path: Path, play: Callable[[str], Awaitable[None]]) -> None:
    async def main() -> None:
        settings = Settings(data=tmp_path, listen=("tcp:127.0.0.1:0",))
        async with asyncio.timeout(240), running(settings) as (_, (address,)):
            await play(str(address))

    uvloop.run(main())


def against_a_broker(tmp_path: Path, play: Play, **settings: object) -> None:
    async def connected(connect: Connect) -> None:
        connection = await connect()
        try:
            await play(connection)
        finally:
            await connection.close()

    near_a_broker(tmp_path, connected, **settings)


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("wait", [True, False])
def test_what_is_sent_arrives(tmp_path: Path, rows: int, wait: bool) -> None:
    async def play(connection: DriverConnection) -> None:
        receiver = await connection.receiver("queue:q", ReceiverOptions(10))
        sender = await connection.sender("queue:q", persistent=wait, transacted=False)
        await sender.send(bodies(*range(rows)), wait=wait)
        assert await received(receiver, rows) == [bytes([n]) * 12 for n in range(rows)]
        await sender.close()
        await receiver.close()

    against_a_broker(tmp_path, play)


def test_message_by_message_each_message_has_an_id_and_a_timestamp(tmp_path: Path) -> None:
    """A plain client sees messages of their own; the client library coalesced them into one frame, and that is seen."""

    async def play(address: str) -> None:
        connection = await DRIVERS["native"](address).connect()
        sender = await connection.sender("queue:q", persistent=False, transacted=False)
        await sender.send(bodies(1, 2, 3), wait=False)
        assert sender.frames == 1
        await sender.close()
        plain = await aio.connect(address)
        consumer = await (await plain.session()).consumer("queue:q")
        messages = [await consumer.receive() for _ in range(3)]
        assert len({message.id for message in messages} - {None}) == 3
        assert all(message.timestamp for message in messages)
        await plain.close()
        await connection.close()

    with_a_broker(tmp_path, play)


@pytest.mark.parametrize("wait", [True, False])
def test_confirmed_or_persistent_messages_have_a_frame_each(tmp_path: Path, wait: bool) -> None:
    async def play(connection: DriverConnection) -> None:
        receiver = await connection.receiver("queue:q", ReceiverOptions(10))
        sender = await connection.sender("queue:q", persistent=True, transacted=False)
        await sender.send(bodies(1, 2, 3), wait=wait)
        assert sender.frames == 3
        assert len(await received(receiver, 3)) == 3
        await sender.close()

    against_a_broker(tmp_path, play)


def test_a_packed_message_is_one_frame_on_both_sides(tmp_path: Path) -> None:
    async def play(connection: DriverConnection) -> None:
        receiver = await connection.receiver("queue:q", ReceiverOptions(100, packed=True))
        sender = await connection.sender("queue:q", persistent=False, transacted=False)
        await sender.send_packed(bodies(*range(50)), wait=True)
        arrival = await receiver.receive()
        assert (len(arrival.bodies), sender.frames, receiver.frames) == (50, 1, 1)

    against_a_broker(tmp_path, play)


def test_a_transacted_receiver_gets_one_message_at_a_time(tmp_path: Path) -> None:
    """So a transaction of ten ends after the tenth message, also if more came in one frame."""

    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender("queue:q", persistent=False, transacted=False)
        await sender.send(bodies(*range(12)), wait=False)
        await sender.close()
        receiver = await connection.receiver("queue:q", ReceiverOptions(100, "transacted"))
        assert [len((await receiver.receive()).bodies) for _ in range(12)] == [1] * 12

    against_a_broker(tmp_path, play)


def test_the_array_may_be_reused_at_once(tmp_path: Path) -> None:
    async def play(connection: DriverConnection) -> None:
        receiver = await connection.receiver("queue:q", ReceiverOptions(1000))
        sender = await connection.sender("queue:q", persistent=False, transacted=False)
        same = bodies(0, 0, 0)
        for n in range(100):
            same[:] = n
            await sender.send(same, wait=False)
        same[:] = 255
        await sender.close()
        found: list[bytes] = []
        while len(found) < 300:
            found += (await receiver.receive()).bodies.tolist()
        assert [body[0] for body in found] == [n for n in range(100) for _ in range(3)]

    against_a_broker(tmp_path, play)


def test_a_transaction_is_visible_after_its_commit_and_acknowledged_by_another(tmp_path: Path) -> None:
    async def play(connect: Connect) -> None:
        connection, other = await connect(), await connect()
        receiver = await connection.receiver("queue:q", ReceiverOptions(10, "transacted"))
        sender = await connection.sender("queue:q", persistent=True, transacted=True)
        await sender.send(bodies(1, 2), wait=False)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await receiver.receive()
        await sender.commit()
        assert len(await received(receiver, 2)) == 2
        await connection.close()
        # Not committed, so they come again, and say so.
        again = await other.receiver("queue:q", ReceiverOptions(10, "transacted"))
        assert [(await again.receive()).redelivered for _ in range(2)] == [True, True]
        await again.commit()
        await other.close()
        # Committed, so they are gone.
        last = await connect()
        empty = await last.receiver("queue:q", ReceiverOptions(10, "transacted"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await empty.receive()
        await last.close()

    near_a_broker(tmp_path, play)


def test_closing_a_sender_means_that_the_system_has_all_of_it(tmp_path: Path) -> None:
    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender("queue:q", persistent=False, transacted=False)
        for _ in range(50):
            await sender.send(bodies(*range(20)), wait=False)
        await sender.close()
        receiver = await connection.receiver("queue:q", ReceiverOptions(5000))
        number = 0
        while number < 1000:
            number += len((await receiver.receive()).bodies)
        assert number == 1000

    against_a_broker(tmp_path, play)


class TestErrorsAreDriverErrors:
    def test_nobody_listens(self, tmp_path: Path) -> None:
        for address in ("tcp:127.0.0.1:1", f"unix:{tmp_path}/none"):
            with pytest.raises(DriverError):
                uvloop.run(DRIVERS["native"](address).connect())

    def test_a_destination_that_is_none(self, tmp_path: Path) -> None:
        async def play(connection: DriverConnection) -> None:
            with pytest.raises(DriverError):
                await connection.sender("nonsense", persistent=False, transacted=False)
            with pytest.raises(DriverError):
                await connection.receiver("nonsense", ReceiverOptions(1))

        against_a_broker(tmp_path, play)

    def test_a_send_that_is_refused(self) -> None:
        async def main() -> None:
            async with running(Settings(listen=("tcp:127.0.0.1:0",))) as (_, (address,)):
                connection = await DRIVERS["native"](str(address)).connect()
                sender = await connection.sender("queue:q", persistent=True, transacted=False)
                with pytest.raises(DriverError):
                    await sender.send(bodies(1, 2), wait=True)
                await connection.close()

        uvloop.run(main())

    def test_the_broker_goes_away(self, tmp_path: Path) -> None:
        async def main() -> None:
            async with running(Settings(data=tmp_path, listen=("tcp:127.0.0.1:0",))) as (_, (address,)):
                connection = await DRIVERS["native"](str(address)).connect()
                sender = await connection.sender("queue:q", persistent=True, transacted=True)
                receiver = await connection.receiver("queue:q", ReceiverOptions(1))
                waiting = asyncio.ensure_future(receiver.receive())
                await asyncio.sleep(0)
            async with asyncio.timeout(240):
                # Above all a sender that is closed: it would say that the system has everything.
                sent = sender.send(bodies(1), wait=False)
                for attempt in (waiting, sender.commit(), receiver.receive(), sent, sender.close()):
                    with pytest.raises(DriverError):
                        await attempt
                await connection.close()

        uvloop.run(main())

    def test_a_sender_that_is_held_back_can_be_left(self, tmp_path: Path) -> None:
        """Nobody takes the messages away; the agent must still be able to end the run."""

        async def play(connection: DriverConnection) -> None:
            sender = await connection.sender("queue:q", persistent=False, transacted=False)
            large = bodies(*range(100), size=100)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(send_for_ever(sender, large), 0.3)

        against_a_broker(tmp_path, play, queue_limit=10_000, producer_window=10_000)
