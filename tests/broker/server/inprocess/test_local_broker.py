"""A broker inside a program: how it begins and how it ends."""

import asyncio
import threading
from pathlib import Path

import pytest

from broker.server.native_connections import native_connections
from broker.server.raw_client import client, in_loop
from mqlab.broker.security.rights import Rights
from mqlab.broker.security.users import Users
from mqlab.broker.server.inprocess.local_broker import LocalBroker
from mqlab.broker.server.startup import serve
from mqlab.broker.settings import SettingError, Settings
from mqlab.client import aio, blocking
from mqlab.client.errors import ClosedError, LoginError, RefusedError
from mqlab.wire.address import Address

PASSWORD = "ann's own password"
INSIDE = Address.parse("bindings:inside")


def inside(**chosen: object) -> Settings:
    return Settings.flat(name="inside", listen=(), **chosen)


def test_it_needs_a_name() -> None:
    with pytest.raises(SettingError, match="bindings:NAME"):
        LocalBroker(Settings())


def test_only_a_broker_inside_a_program_can_do_without_an_address() -> None:
    with pytest.raises(SettingError, match="listen: name at least one address"):
        Settings(listen=())
    with pytest.raises(SettingError, match="listen: a broker in a process of its own needs an address"):
        serve(inside(), lambda _: None)


def test_bindings_are_not_an_address_to_listen_on() -> None:
    with pytest.raises(SettingError, match="listen: bindings:x is for programs"):
        Settings(listen=("bindings:x",), name="x")


@in_loop
async def test_it_has_no_socket_unless_it_is_told_to_listen() -> None:
    async with LocalBroker(inside()) as broker:
        assert (broker.addresses, broker.name) == ([], "inside")
    async with LocalBroker(Settings.flat(name="inside", listen=("tcp:127.0.0.1:0",))) as broker:
        near, far = await client(INSIDE), await client(broker.addresses[0])
        await (await (await near.session()).producer("queue:q")).send(b"1")
        consumer = await (await far.session()).consumer("queue:q")
        assert (await consumer.receive(timeout=240)).body == b"1"
        assert len(broker.broker.connections) == 2


@in_loop
async def test_a_name_is_one_brokers_as_long_as_it_runs() -> None:
    broker = await LocalBroker.start(inside())
    with pytest.raises(SettingError, match="name: there is a broker called 'inside'"):
        await LocalBroker.start(inside())
    assert (await (await client(INSIDE)).status())["connections"] == 1
    await broker.close()
    await broker.close()
    with pytest.raises(ConnectionRefusedError):
        await aio.connect(str(INSIDE))
    async with LocalBroker(inside()):
        await client(INSIDE)


@in_loop
async def test_its_clients_learn_that_it_is_gone() -> None:
    broker = await LocalBroker.start(inside())
    session = await (await client(INSIDE)).session()
    consumer, producer = await session.consumer("queue:q"), await session.producer("queue:q")
    waiting = asyncio.ensure_future(consumer.receive())
    await asyncio.sleep(0)
    await broker.close()
    with pytest.raises(ClosedError):
        await waiting
    with pytest.raises(ClosedError):
        await producer.send(b"too late")


@in_loop
async def test_a_client_that_leaves_is_gone_for_the_broker(tmp_path: Path) -> None:
    async with LocalBroker(inside(data=tmp_path)) as broker:
        connection = await client(INSIDE)
        session = await connection.session("transacted")
        await (await session.producer("queue:q")).send(b"never committed", persistent=True)
        await connection.temporary_queue()
        await connection.close()
        assert broker.broker.connections == set()
        listed = (await (await client(INSIDE)).ask("list"))["destinations"]
        assert [(one["name"], one["messages"], one["producers"]) for one in listed] == [("queue:q", 0, 0)]


@in_loop
async def test_users_and_their_rights_hold_as_over_a_socket(tmp_path: Path) -> None:
    users = Users.empty()
    users.add("ann", PASSWORD, Rights().granted("read", "queue:q").granted("create", "queue:q"))
    users.write(tmp_path / "users")
    async with LocalBroker(inside(users=tmp_path / "users")) as broker:
        with pytest.raises(LoginError):
            await aio.connect(str(INSIDE))
        async with await aio.connect(str(INSIDE), user="ann", password=PASSWORD, application="shop") as connection:
            (known,) = native_connections(broker.broker)
            assert (known.user.name, known.application) == ("ann", "shop")
            session = await connection.session()
            await session.consumer("queue:q")
            with pytest.raises(RefusedError, match="no right to send"):
                await session.producer("queue:q")


@in_loop
async def test_a_broker_that_cannot_go_on_lets_nobody_in() -> None:
    async with LocalBroker(inside()) as broker:
        connection = await client(INSIDE)
        broker.broker.on_failure(OSError("the disk is gone"))
        with pytest.raises(ClosedError):
            await (await connection.session()).producer("queue:q")
        async with asyncio.timeout(240):
            while True:
                try:
                    await aio.connect(str(INSIDE))
                except OSError:
                    break
                except ClosedError:
                    pass
                # A connection inside the process may take no turn of the loop, and the broker needs some to end.
                await asyncio.sleep(0)


def test_in_a_thread_of_its_own() -> None:
    with LocalBroker.in_thread(inside()) as broker:
        assert broker.name == "inside"
        with blocking.connect(str(INSIDE)) as connection:
            session = connection.session()
            session.producer("queue:q").send(b"1")
            assert session.consumer("queue:q").receive(timeout=240).body == b"1"
    assert "mqlab-broker" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(ConnectionRefusedError):
        blocking.connect(str(INSIDE))


def test_what_is_wrong_with_it_is_told_to_who_starts_it(tmp_path: Path) -> None:
    with (
        LocalBroker.in_thread(inside(data=tmp_path)),
        pytest.raises(SettingError, match="there is a broker called"),
        LocalBroker.in_thread(inside()),
    ):
        pass
    assert "mqlab-broker" not in {thread.name for thread in threading.enumerate()}
