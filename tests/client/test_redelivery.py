"""Redelivery after a crash of the client or the broker, for every acknowledgement mode and every moment, as a table.

A queue has six persistent messages, and a consumer with prefetch 4 receives some of them. In a transaction it also
forwards each one. No message is ever lost, and the effects of an open transaction are never visible.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import uvloop

from broker.server.raw_client import client, in_loop, local
from features.broker_process import BrokerProcess
from features.message_helpers import assert_no_messages, numbers
from mqlab.broker.server.startup import running
from mqlab.client import Message, aio
from mqlab.client.consumer import Acknowledge
from mqlab.client.errors import MessagingError
from mqlab.wire.native.bodies import encode

MODES: Final[tuple[Acknowledge, ...]] = ("auto", "dups_ok", "client", "individual", "transacted")

# The moment of the death: one message was received; all were, and their acknowledgement (for auto and dups_ok: the
# next receive; in a transaction: the commit) comes next; it was said, and the broker has not heard it; it has heard
# it, and the client does not know.
MOMENTS: Final = ("received", "before", "unheard", "heard")

# Messages received before the acknowledgement. dups_ok tells a whole delivery.
RECEIVED: Final = {"auto": 3, "dups_ok": 4, "client": 3, "individual": 3, "transacted": 3}


class Outcome(NamedTuple):
    """Numbers of the messages that are gone for good, and of those that the client's death leaves without a mark.

    All others come again, marked. After the broker's death all are marked: it does not know what was delivered.
    """

    gone: set[int]
    unmarked: set[int]


# What the client never had room for is not marked; room for more comes with an acknowledgement.
OUTCOMES: Final = {
    ("auto", "received"): Outcome(set(), {4, 5}),
    ("auto", "before"): Outcome({0, 1}, set()),
    ("auto", "unheard"): Outcome({0, 1}, set()),
    ("auto", "heard"): Outcome({0, 1, 2}, set()),
    ("dups_ok", "received"): Outcome(set(), {4, 5}),
    ("dups_ok", "before"): Outcome(set(), {4, 5}),
    ("dups_ok", "unheard"): Outcome(set(), {4, 5}),
    ("dups_ok", "heard"): Outcome({0, 1, 2, 3}, set()),
    ("client", "received"): Outcome(set(), {4, 5}),
    ("client", "before"): Outcome(set(), {4, 5}),
    ("client", "unheard"): Outcome(set(), {4, 5}),
    ("client", "heard"): Outcome({0, 1, 2}, set()),
    ("individual", "received"): Outcome(set(), {4, 5}),
    ("individual", "before"): Outcome(set(), {4, 5}),
    ("individual", "unheard"): Outcome(set(), {4, 5}),
    ("individual", "heard"): Outcome({0, 2}, {4, 5}),
    ("transacted", "received"): Outcome(set(), {4, 5}),
    ("transacted", "before"): Outcome(set(), {4, 5}),
    ("transacted", "unheard"): Outcome(set(), {4, 5}),
    ("transacted", "heard"): Outcome({0, 1, 2}, set()),
}


class Found(NamedTuple):
    """What others receive after the death: number, delivery count; and what was sent on."""

    came: list[tuple[int, int]]
    sent_on: list[bytes]


class Life:
    """A client up to a moment of its life."""

    def __init__(self, mode: Acknowledge, watching: aio.Connection) -> None:
        self._mode = mode
        self._watching = watching
        self._in, self._out = f"queue:{mode}.in", f"queue:{mode}.out"
        self.last_act: asyncio.Task[Message] | asyncio.Task[None] | None = None

    async def begin(self, address: str) -> None:
        filler = await (await self._watching.session()).producer(self._in)
        await filler.send_batch(encode(numbers(0, 6)), persistent=True, confirm=True)
        self.connection = await aio.connect(address)
        self._session = await self.connection.session(self._mode)
        self._consumer = await self._session.consumer(self._in, prefetch=4)
        self._producer = await self._session.producer(self._out)

    async def receive(self, moment: str) -> None:
        self._messages = []
        for n in range(1 if moment == "received" else RECEIVED[self._mode]):
            self._messages.append(await self._consumer.receive(timeout=240))
            assert self._messages[-1].body == b"%d" % n
            if self._mode == "transacted":
                await self._producer.send(b"%d" % n, persistent=True)
        # After two answers the broker has heard all that was said so far.
        for _ in range(2):
            await self.connection.status()
        assert (await self._watching.ask("show", name=self._out))["messages"] == 0

    async def acknowledge(self) -> None:
        """Say it. It leaves with the next turn of the loop, not before."""
        if self._mode in ("auto", "dups_ok"):
            self.last_act = asyncio.ensure_future(self._consumer.receive())
        elif self._mode == "client":
            self._session.acknowledge()
        elif self._mode == "individual":
            for message in self._messages[::2]:
                self._consumer.acknowledge(message)
        else:
            self.last_act = asyncio.ensure_future(self._session.commit())
        if self.last_act is not None:
            await asyncio.sleep(0)

    def cut(self) -> None:
        """The socket is gone without a goodbye, and with it all that had not left."""
        connection = self.connection._connection
        assert connection._transport is not None
        connection._unsent.clear()
        connection._transport.abort()

    async def end(self) -> None:
        await self.connection.drop()
        if self.last_act is not None:
            with suppress(MessagingError):
                await self.last_act

    async def heard(self, before: int) -> None:
        """Wait until the broker has noted the acknowledgement."""
        while (await self._watching.status())["journal_bytes"] == before:
            pass
        for _ in range(2):
            await self._watching.status()


async def _write_journal(connection: aio.Connection) -> None:
    """Wait until all records are on disk: those of acknowledgements are written some time after them."""
    await (await (await connection.session()).producer("queue:other")).send(b"x", persistent=True)


async def found(connection: aio.Connection, mode: Acknowledge) -> Found:
    session = await connection.session()
    came: dict[str, list[tuple[int, int]]] = {}
    for end in ("in", "out"):
        name = f"queue:{mode}.{end}"
        consumer = await session.consumer(name)
        count = (await connection.ask("show", name=name))["messages"]
        messages = [await consumer.receive(timeout=240) for _ in range(count)]
        await assert_no_messages(connection, consumer)
        assert all(message.redelivered == (message.delivery_count > 1) for message in messages)
        came[end] = [(int(message.body), message.delivery_count) for message in messages]
    return Found(came["in"], [b"%d" % n for n, _ in came["out"]])


def check(mode: Acknowledge, moment: str, after: Found, *, broker_died: bool) -> None:
    gone, unmarked = OUTCOMES[mode, moment]
    if broker_died:
        unmarked = set()
    # Once each, in order, marked or not: nothing lost, nothing twice.
    assert after.came == [(n, 1 if n in unmarked else 2) for n in range(6) if n not in gone]
    # A transaction in doubt is all or nothing: what it took is gone just if what it sent is there.
    assert after.sent_on == (numbers(0, 3) if mode == "transacted" and gone else [])


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("mode", MODES)
@in_loop
async def test_the_client_dies(mode: Acknowledge, moment: str, tmp_path: Path) -> None:
    # A slow disk keeps a commit in doubt for a while.
    marks = 4 if (mode, moment) == ("transacted", "heard") else 0
    async with running(local(data=tmp_path, disk_marks=marks)) as (broker, (address,)):
        watching = await client(address)
        life = Life(mode, watching)
        await life.begin(str(address))
        await life.receive(moment)
        before = (await watching.status())["journal_bytes"]
        if moment in ("unheard", "heard"):
            await life.acknowledge()
            if moment == "heard":
                await life.heard(before)
        life.cut()
        await life.end()
        while len(broker.connections) > 1:
            await asyncio.sleep(0)
        # One sync later a commit that was in doubt is there or not.
        await _write_journal(watching)
        check(mode, moment, await found(watching, mode), broker_died=False)


async def _broker_dies(folder: Path, moment: str) -> dict[Acknowledge, Found]:
    """Clients of all modes are there when it is killed."""
    async with BrokerProcess(folder, "--data", str(folder / "data"), "--disk-marks", "4") as broker:
        watching = await aio.connect(broker.address)
        lives = [Life(mode, watching) for mode in MODES]
        await asyncio.gather(*(life.begin(broker.address) for life in lives))
        await asyncio.gather(*(life.receive(moment) for life in lives))
        await _write_journal(watching)
        if moment == "unheard":
            broker.freeze()
        for life in lives:
            if moment in ("unheard", "heard"):
                before = 0 if moment == "unheard" else (await watching.status())["journal_bytes"]
                await life.acknowledge()
                if moment == "heard":
                    await life.heard(before)
        # What was said is in the sockets by now.
        for _ in range(3):
            await asyncio.sleep(0)
        await broker.kill()
        for life in lives:
            await life.end()
        await watching.drop()
        await broker.start()
        again = await aio.connect(broker.address)
        try:
            return {mode: await found(again, mode) for mode in MODES}
        finally:
            await again.drop()


class Killed:
    """Each moment is lived through once, for all modes together: a process takes a while to start."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._found: dict[str, dict[Acknowledge, Found]] = {}

    def at(self, moment: str) -> dict[Acknowledge, Found]:
        if moment not in self._found:
            folder = self._factory.mktemp(moment)
            self._found[moment] = uvloop.run(asyncio.wait_for(_broker_dies(folder, moment), 240))
        return self._found[moment]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    return Killed(tmp_path_factory)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("mode", MODES)
def test_the_broker_dies(mode: Acknowledge, moment: str, killed: Killed) -> None:
    check(mode, moment, killed.at(moment)[mode], broker_died=True)


def test_the_table_is_complete() -> None:
    assert OUTCOMES.keys() == {(mode, moment) for mode in MODES for moment in MOMENTS}
