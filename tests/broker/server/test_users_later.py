"""A broker that gets users after it had none: durable subscriptions of its journal find an owner."""

from pathlib import Path

import pytest

from mqlab.broker.security import passwords
from mqlab.broker.server.startup import running
from mqlab.client.errors import MessagingError
from mqlab.wire.address import Address
from mqlab.wire.native.frames import Flag, Kind

from .access_users import ask, logged_in, open_link, write_users
from .raw_client import Raw, in_loop, local


async def subscribe(raw: Raw, link: int = 9) -> str:
    return await open_link(raw, Kind.OPEN_CONSUMER, "topic:shop.news", link, durable="books")


@in_loop
async def test_the_first_who_subscribes_again_owns_it_also_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "COST", passwords.Cost(10, 8, 1))
    write_users(tmp_path / "users")
    settings = local(data=tmp_path / "data")
    with_users = local(data=tmp_path / "data", users=tmp_path / "users")
    async with running(settings) as (broker, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        assert await subscribe(raw) == ""
        await raw.close()
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("topic:shop.news")
        raw.send(b"1", flags=int(Flag.CONFIRM | Flag.PERSISTENT))
        await raw.read_until(Kind.CONFIRM)
    async with running(with_users) as (broker, (address,)):
        assert await owned_by_ann(address)
        assert [*broker.core.destinations.routing.durable] == ["ann//books"]
    async with running(with_users) as (broker, (address,)):
        other = await logged_in(address, "read")
        assert await subscribe(other) == ""
        assert await owned_by_ann(address)
        assert {*broker.core.destinations.routing.durable} == {"ann//books", "read//books"}
        assert "no durable" in str((await ask(await logged_in(address, "all"), "unsubscribe", name="books"))["error"])


async def owned_by_ann(address: Address) -> bool:
    """Whether she receives the message of the journal. She does not acknowledge it."""
    ann = await logged_in(address, "ann")
    try:
        assert await subscribe(ann) == ""
        return (await ann.read_until(Kind.DELIVER)).amount == 1
    except MessagingError:
        return False
    finally:
        await ann.close()
