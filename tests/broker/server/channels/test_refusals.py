"""What the other broker refuses becomes a dead letter here; all else goes on."""

import logging
from pathlib import Path

import pytest

from broker.option_types import ChannelValues
from broker.server.raw_client import in_loop
from mqlab.broker import limits
from mqlab.broker.policy import Policies, PolicyRule
from mqlab.broker.security import passwords
from mqlab.broker.security.rights import Rights
from mqlab.broker.security.users import Users
from mqlab.client import aio
from mqlab.client.errors import RefusedError
from mqlab.wire.native.bodies import encode

from .pair import PATIENCE, Pair, bodies, until

PASSWORD = "the channel's own"


async def dead(pair: Pair, count: int) -> list[tuple[bytes, str]]:
    session = await pair.session("A")
    consumer = await session.consumer("queue:dead-letters")
    found = [await consumer.receive(PATIENCE) for _ in range(count)]
    await consumer.close()
    return [(one.body, one.destination) for one in found]


async def send(session: aio.Session, name: str, *wanted: bytes) -> None:
    producer = await session.producer(name)
    await producer.send_batch(encode(wanted), persistent=True, confirm=True)


@in_loop
async def test_a_full_queue_that_refuses(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One of three in the same batch."""
    rules = Policies((PolicyRule("queue:full", {"message_limit": 1, "when_full": "refuse"}),))
    async with Pair(tmp_path, b={"policies": rules}) as pair:
        await send(await pair.session("B"), "queue:full", b"there")
        await pair.gate.close()
        session = await pair.session("A")
        for name in ("one", "full", "other", "full"):
            await send(session, f"queue:{name}@B", name.encode())
        await pair.gate.open()
        there = await pair.session("B")
        assert await bodies(there, "queue:one", 1) == [b"one"]
        assert await bodies(there, "queue:other", 1) == [b"other"]
        assert await dead(pair, 2) == [(b"full", "queue:full@B")] * 2
        await until(lambda: not pair.waiting())
        assert (pair.status["refused"], pair.status["state"]) == (2, "running")
        assert pair.depth("full") == 1
        said = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
        assert any(
            "2 messages for queue:full@B go to the dead letter queue: " in one and "is full" in one for one in said
        )


@in_loop
async def test_a_queue_that_is_gone_and_a_message_for_none(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        session, there = await pair.session("A"), await pair.client("B")
        temporary = await there.temporary_queue()
        await send(session, f"{temporary}@B", b"1")
        assert await bodies(await there.session(), temporary, 1) == [b"1"]
        await there.close()
        await send(session, f"{temporary}@B", b"2")
        # Straight to where messages wait: for whom?
        await send(session, "queue:transmit.B", b"3")
        assert sorted(await dead(pair, 2)) == [(b"2", f"{temporary}@B"), (b"3", "queue:transmit.B")]
        await send(session, "queue:q@B", b"5")
        assert await bodies(await pair.session("B"), "queue:q", 1) == [b"5"]


@in_loop
async def test_a_queue_that_was_deleted_and_made_again(tmp_path: Path) -> None:
    """The channel's producer knew the first one."""
    async with Pair(tmp_path) as pair:
        session, there = await pair.session("A"), await pair.client("B")
        await send(session, "queue:q@B", b"1")
        await until(lambda: pair.depth("q") == 1)
        await there.ask("delete", name="queue:q")
        await send(session, "queue:q@B", b"2")
        assert await bodies(await there.session(), "queue:q", 1) == [b"2"]
        assert pair.status["refused"] == 0


@in_loop
async def test_persistent_messages_to_a_broker_that_keeps_nothing(tmp_path: Path) -> None:
    async with Pair(tmp_path, b={"data": None}) as pair:
        session = await pair.session("A")
        await send(session, "queue:q@B", b"1")
        assert await dead(pair, 1) == [(b"1", "queue:q@B")]
        await (await session.producer("queue:q@B")).send(b"2")
        assert await bodies(await pair.session("B"), "queue:q", 1) == [b"2"]


@in_loop
async def test_a_full_disk_over_there_is_waited_for(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        await pair.becomes("running")
        pair.brokers["B"].core.disk_full = "no space left"
        await send(await pair.session("A"), "queue:q@B", b"1")
        assert "no space left" in (await pair.becomes("retrying"))["reason"]
        pair.brokers["B"].core.disk_full = ""
        assert await bodies(await pair.session("B"), "queue:q", 1) == [b"1"]
        assert pair.status["refused"] == 0


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A channel that may write to `open` and to its own queue of tokens."""
    monkeypatch.setattr(passwords, "COST", passwords.Cost(10, 8, 1))
    rights = Rights().granted("write", "queue:open").granted("create", "queue:open")
    for right in ("read", "write", "create"):
        rights = rights.granted(right, "queue:channel.A")
    made = Users.empty()
    made.add("channel", PASSWORD, rights)
    made.add("watcher", PASSWORD, Rights().granted("read", "all"))
    made.write(tmp_path / "users")
    return tmp_path / "users"


@in_loop
async def test_rights_over_there_are_those_of_the_local_name(users: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{PASSWORD}\n")
    login: ChannelValues = {"user": "channel", "password_file": tmp_path / "secret"}
    async with Pair(tmp_path, b={"users": users}, **login) as pair:
        session = await pair.session("A")
        await send(session, "queue:closed@B", b"1")
        await send(session, "queue:open@B", b"2")
        assert await dead(pair, 1) == [(b"1", "queue:closed@B")]
        watcher = await pair.client("B", user="watcher", password=PASSWORD)
        assert await bodies(await watcher.session(), "queue:open", 1) == [b"2"]


@in_loop
async def test_rights_here_are_those_of_the_full_name(users: Path, tmp_path: Path) -> None:
    made = Users.empty()
    made.add("ann", PASSWORD, Rights().granted("write", "queue:orders@B"))
    made.write(users)
    async with Pair(tmp_path, {"users": users, "remotes": (("orders", "queue:orders@B"), ("q", "queue:q@B"))}) as pair:
        session = await (await pair.client("A", user="ann", password=PASSWORD)).session()
        for name in ("queue:orders@B", "queue:orders"):
            await send(session, name, b"1")
        for name in ("queue:q@B", "queue:q", "queue:orders@A", "queue:transmit.B"):
            with pytest.raises(RefusedError, match="ann has no right to"):
                await session.producer(name)
        assert await bodies(await pair.session("B"), "queue:orders", 2) == [b"1", b"1"]


@in_loop
async def test_a_wrong_password_is_told_and_tried_again(
    users: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "secret").write_text("not the one\n")
    login: ChannelValues = {"user": "channel", "password_file": tmp_path / "secret"}
    async with Pair(tmp_path, b={"users": users}, **login) as pair:
        await until(lambda: "wrong user or password" in pair.status["reason"])
        await send(await pair.session("A"), "queue:open@B", b"1")
        (tmp_path / "secret").write_text(PASSWORD)
        await pair.becomes("running")
        await until(lambda: pair.depth("open") == 1)
    said = caplog.text + str(pair.status)
    assert PASSWORD not in said
    assert "not the one" not in said


@in_loop
async def test_a_password_that_cannot_be_read(tmp_path: Path) -> None:
    async with Pair(tmp_path, user="channel", password_file=tmp_path / "none") as pair:
        await until(lambda: "No such file" in pair.status["reason"])
        assert pair.status["state"] == "retrying"


@in_loop
async def test_a_message_that_is_too_large_for_the_other_broker(tmp_path: Path) -> None:
    """Only that one is a dead letter; many small ones that are too large together arrive."""
    async with Pair(tmp_path, b={"max_message_size": limits.FRAME_LEAST}) as pair:
        session = await pair.session("A")
        small, large = [b"%04d" % number + bytes(10_000) for number in range(100)], bytes(5 * 1024 * 1024)
        for payload in (encode(small), encode([large]), encode(small[:1])):
            producer = await session.producer("queue:q@B")
            await producer.send_batch(payload, persistent=True, confirm=True)
        assert await bodies(await pair.session("B"), "queue:q", 101) == [*small, small[0]]
        assert await dead(pair, 1) == [(large, "queue:q@B")]
        await until(lambda: not pair.waiting())
        assert (pair.status["refused"], pair.status["state"]) == (1, "running")
