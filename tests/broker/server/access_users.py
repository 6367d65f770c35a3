"""A broker whose users have one right each, and objects that belong to another user."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mqlab.broker.channel_settings import ChannelSettings
from mqlab.broker.security import passwords
from mqlab.broker.security.rights import RIGHTS, Rights
from mqlab.broker.security.users import Users
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.startup import running
from mqlab.broker.settings import Settings
from mqlab.json_values import JsonObject
from mqlab.wire.address import Address
from mqlab.wire.native import frames as native
from mqlab.wire.native.frames import Flag, Kind

from .raw_client import Raw

# Each has the right of the same name on everything below `shop`; nobody has none, all has every right on everything.
USERS = ("nobody", *RIGHTS, "all")
# Has the right to read everything, and no other.
READER = "reader"
PASSWORD = "the same for all"
# A refusal for want of a right, in whatever words.
DENIED = re.compile("has no right to|a temporary queue of another connection")


def write_users(path: Path) -> None:
    users = Users.empty()
    for name in (*USERS, READER, "ann"):
        rights = Rights()
        for right in RIGHTS:
            if name in ("all", "ann") or (name == READER and right == "read"):
                rights = rights.granted(right, "all")
            elif name == right:
                patterns = ("queue:shop.#", "topic:shop.#", "queue:transmit.#", "queue:mqlab.trace")
                for pattern in patterns:
                    rights = rights.granted(right, pattern)
        users.add(name, PASSWORD, rights)
    users.write(path)


async def logged_in(address: Address, user: str, **said: object) -> Raw:
    raw = await Raw.connect(address, greet=False)
    hello = {"version": native.VERSION, "user": user, "password": PASSWORD, **said}
    raw.write(native.frame(Kind.HELLO, hello))
    assert (await raw.read()).kind == Kind.HELLO
    await raw.open_session()
    return raw


async def ask(raw: Raw, question: str, **arguments: object) -> JsonObject:
    raw.write(native.frame(Kind.ASK, {"ask": question, **arguments}, session=1, first=7))
    return (await raw.read_until(Kind.ANSWER)).json()


async def open_link(raw: Raw, kind: Kind, destination: str, link: int = 50, /, **more: object) -> str:
    """ "" if it is open, else why not."""
    raw.write(native.frame(kind, {"destination": destination, **more}, session=1, link=link, amount=1))
    while True:
        frame = await raw.read()
        if frame.link == link and frame.kind in (Kind.OPENED, Kind.ERROR):
            return "" if frame.kind == Kind.OPENED else str(frame.json()["message"])


class World:
    """What is ann's: a queue with a message, a durable subscription, a temporary queue, a prepared transaction."""

    def __init__(self, broker: Broker, address: Address, ann: Raw, temporary: str) -> None:
        self.broker = broker
        self.address = address
        self.ann = ann
        self.temporary = temporary
        self.subscription = "subscription:ann/app/books"

    def messages(self, name: str) -> int:
        queue = self.broker.core.destinations.find(name)
        assert queue is not None, name
        return queue.messages


@asynccontextmanager
async def world(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(passwords, "COST", passwords.Cost(10, 8, 1))
    write_users(folder / "users")
    channel = ChannelSettings("B", f"unix:{folder / 'nowhere'}")
    settings = Settings(
        listen=("tcp:127.0.0.1:0",),
        users=folder / "users",
        data=folder / "data",
        name="A",
        channels=(channel,),
        segment_size=1024 * 1024,
    )
    async with running(settings) as (broker, (address,)):
        ann = await logged_in(address, "ann", client_id="app")
        for number, name in enumerate(("queue:shop.orders", "queue:shop.others", "topic:shop.news"), 1):
            await ann.open_producer(name, link=number)
        assert await open_link(ann, Kind.OPEN_CONSUMER, "topic:shop.news", 9, durable="books") == ""
        ann.write(native.header(Kind.CLOSE, link=9))
        await ann.read_until(Kind.CLOSED)
        temporary = str((await ask(ann, "temporary"))["name"])
        await ann.open_producer(temporary, link=4)
        for link in (1, 3, 4):
            ann.send(b"private", link=link, flags=int(Flag.CONFIRM))
            await ann.read_until(Kind.CONFIRM)
        await ann.open_session(2, transacted=True)
        await ann.open_producer("queue:shop.orders", link=5, session=2)
        ann.send(b"prepared", link=5, flags=int(Flag.PERSISTENT))
        ann.write(native.frame(Kind.ASK, {"ask": "prepare", "xid": "one"}, session=2, first=8))
        assert "error" not in (await ann.read_until(Kind.ANSWER)).json()
        yield World(broker, address, ann, temporary)


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.01)
