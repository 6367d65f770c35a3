"""What clients see of a message and of a broker: JMS' model, the native protocol, kinds of connection, sizes."""

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from broker.server.native_connections import native_connections
from broker.server.raw_client import Raw, client, in_loop, local
from client.broker_helpers import serving
from mqlab.broker.server.inprocess.local_broker import LocalBroker
from mqlab.broker.server.startup import running
from mqlab.broker.settings import Settings
from mqlab.client import aio, connect
from mqlab.client.errors import ClosedError
from mqlab.client.headers import Byte, Float, Int, Short
from mqlab.wire.address import Address
from mqlab.wire.native.bodies import encode
from mqlab.wire.native.columns import Value
from mqlab.wire.native.frames import Flag, Kind

from .message_helpers import numbers, receive


@in_loop
async def test_jms_api(tmp_path: Path) -> None:
    """Headers, types of properties and selectors as Jakarta Messaging has them. (Its Java interfaces: later.)"""
    properties: dict[str, Value] = {
        "flag": True, "byte": Byte(-128), "short": Short(32767), "int": Int(-(2**31)), "long": 2**62,
        "float": Float(0.5), "double": 1e300, "text": "größe",
    }  # fmt: skip
    async with running(local(data=tmp_path)) as (_, (address,)):
        session = await (await client(address)).session("client")
        selectors = (
            "JMSMessageID LIKE 'ID:%'", "JMSTimestamp > 0", "JMSCorrelationID = 'c'", "JMSType = 't'",
            "JMSDeliveryMode = 'PERSISTENT'", "JMSPriority = 9", "int < 0 AND flag AND text LIKE 'gr%'",
        )  # fmt: skip
        consumer = await session.consumer("queue:q", selector=" AND ".join(selectors))
        producer = await session.producer("queue:q", time_to_live=60_000)
        before = time.time_ns() // 1_000_000
        for persistent in (False, True):
            await producer.send(
                b"body", persistent=persistent, properties=properties, correlation_id="c", reply_to="queue:r",
                type="t", priority=9,
            )  # fmt: skip
        message = await consumer.receive(timeout=240)
        assert message.id is not None
        assert message.id.startswith("ID:")
        assert (message.body, message.destination, message.persistent) == (b"body", "queue:q", True)
        assert (message.correlation_id, message.reply_to, message.type, message.priority) == ("c", "queue:r", "t", 9)
        assert message.timestamp is not None
        assert before <= message.timestamp <= time.time_ns() // 1_000_000
        assert message.expiration == message.timestamp + 60_000
        assert message.properties == properties
        assert (message.redelivered, message.delivery_count) == (False, 1)
        await session.recover()
        again = await consumer.receive(timeout=240)
        assert (again.id, again.redelivered, again.delivery_count) == (message.id, True, 2)


def test_native_api_other_clients_c_com_soap() -> None:
    """One protocol: what the blocking, the asyncio and a client that knows only frames send, all of them receive."""

    async def others(address: Address) -> None:
        session = await (await client(address)).session()
        assert (await (await session.consumer("queue:first")).receive(timeout=240)).body == b"plain"
        await (await session.producer("queue:second")).send(b"asyncio", properties={"n": 1})
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_consumer("queue:second")
        delivered = await raw.read_until(Kind.DELIVER)
        assert bytes(delivered.payload).endswith(b"asyncio")
        await raw.open_producer("queue:third")
        raw.send(b"frames", flags=Flag.CONFIRM)
        await raw.read_until(Kind.CONFIRM)

    with serving(local()) as served, connect(served.address) as connection:
        session = connection.session()
        session.producer("queue:first").send(b"plain")
        in_loop(others)(Address.parse(served.address))
        assert session.consumer("queue:third").receive(timeout=240).body == b"frames"


@in_loop
async def test_client_connection_against_local_bindings(tmp_path: Path) -> None:
    """Over TCP, over a Unix socket of the same machine and in the broker's process there is the same session."""
    settings = Settings.flat(name="here", listen=("tcp:127.0.0.1:0", f"unix:{tmp_path / 'socket'}"))
    async with LocalBroker(settings) as broker:
        bound = await client(Address.parse("bindings:here"))
        far, near = [await client(address) for address in broker.addresses]
        assert sorted(one.peer for one in native_connections(broker.broker)) == ["", "127.0.0.1", f"uid {os.getuid()}"]
        for sending, receiving in ((near, far), (far, bound), (bound, near)):
            session = await sending.session("transacted")
            producer = await session.producer("queue:q")
            await producer.send(b"rolled back")
            await session.rollback()
            await producer.send(b"committed", correlation_id="c")
            await session.commit()
            consumer = await (await receiving.session()).consumer("queue:q")
            message = await consumer.receive(timeout=240)
            assert (message.body, message.correlation_id) == (b"committed", "c")
            await consumer.close()


@asynccontextmanager
async def overheard(address: Address) -> AsyncIterator[tuple[int, bytearray]]:
    """A port that leads to the broker, and all that goes through it."""
    heard = bytearray()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            heard.extend(data)
            writer.write(data)
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(address.host, address.port)
        await asyncio.gather(pass_on(reader, there[1]), pass_on(there[0], writer), return_exceptions=True)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], heard
    finally:
        server.close()
        await server.wait_closed()


async def encryption(folder: Path) -> None:
    """What goes over the wire cannot be read, and only who trusts the broker's authority talks to it."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    ca, certificate, key = folder / "ca", folder / "certificate", folder / "key"
    authority.cert_pem.write_to_path(str(ca))
    issued.private_key_pem.write_to_path(str(key))
    issued.cert_chain_pems[0].write_to_path(str(certificate))
    listen = ("tls:localhost:0", "tcp:127.0.0.1:0")
    async with running(Settings.flat(listen=listen, tls_certificate=certificate, tls_key=key)) as (_, addresses):
        found = []
        for address, scheme in zip(addresses, ("tls:localhost", "tcp:localhost"), strict=True):
            async with overheard(address) as (port, heard):
                connection = await aio.connect(f"{scheme}:{port}", ca=ca)
                session = await connection.session()
                await (await session.producer("queue:q")).send(b"secret")
                consumer = await session.consumer("queue:q")
                assert await receive(consumer, 1) == [b"secret"]
                await consumer.close()
                await connection.close()
            found.append(b"secret" in heard)
        assert found == [False, True]
        with pytest.raises(ssl.SSLError):
            await aio.connect(str(addresses[0]))


async def load_balancing(folder: Path) -> None:
    """Consumers of one queue on many connections each get their part."""
    async with running(local(data=folder)) as (_, (address,)):
        consumers = [await (await (await client(address)).session()).consumer("queue:q", prefetch=5) for _ in range(4)]
        producer = await (await (await client(address)).session()).producer("queue:q")
        for body in numbers(0, 20):
            await producer.send(body)
        shares = [await receive(consumer, 5) for consumer in consumers]
        assert sorted(int(body) for share in shares for body in share) == list(range(20))


async def failover(folder: Path) -> None:
    """There is no second broker to take over: clients get a clear error, and the next broker has everything."""
    async with running(local(data=folder)) as (broker, (address,)):
        connection = await client(address)
        session = await connection.session()
        producer, consumer = await session.producer("queue:q"), await session.consumer("queue:other")
        await producer.send(b"kept", persistent=True)
        waiting = asyncio.ensure_future(consumer.receive())
        await connection.status()
        for one in [*broker.connections]:
            one.drop()
        for action in (waiting, producer.send(b"x", persistent=True), connection.session()):
            with pytest.raises(ClosedError, match=r"connection to the broker is lost"):
                await action
    async with running(local(data=folder)) as (_, (address,)):
        consumer = await (await (await client(address)).session()).consumer("queue:q")
        assert await receive(consumer, 1) == [b"kept"]


@pytest.mark.parametrize("part", [encryption, load_balancing, failover])
def test_clustering_high_availability_failover_load_balancing_encryption(
    part: Callable[[Path], Coroutine[object, None, None]], tmp_path: Path
) -> None:
    """What one broker has of it. Clustering and a second broker that takes over are not there."""
    in_loop(part)(tmp_path)


@in_loop
async def test_message_id_and_timestamp_suppression() -> None:
    sizes: dict[tuple[bool, bool], int] = {}
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        for ids in (False, True):
            for timestamps in (False, True):
                name = f"queue:{ids}-{timestamps}"
                producer = await session.producer(name, ids=ids, timestamps=timestamps)
                for body in numbers(0, 3):
                    await producer.send(body)
                await producer.flush()
                sizes[ids, timestamps] = (await connection.ask("show", name=name))["bytes"]
                consumer = await session.consumer(name)
                came = [await consumer.receive(timeout=240) for _ in range(3)]
                assert [message.body for message in came] == numbers(0, 3)
                assert [message.id is not None for message in came] == [ids] * 3
                assert [message.timestamp is not None for message in came] == [timestamps] * 3
                assert len({message.id for message in came}) == (3 if ids else 1)
    # Each costs bytes, and both cost more than one.
    assert sizes[False, False] < min(sizes[True, False], sizes[False, True])
    assert max(sizes[True, False], sizes[False, True]) < sizes[True, True]


@in_loop
async def test_body_size_against_full_message_size() -> None:
    """Limits and counters are of full messages: a body with much said of it counts for more."""
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        found = []
        for name, properties in (("bare", {}), ("told", {"text": "x" * 500})):
            producer = await session.producer(f"queue:{name}", ids=False, timestamps=False)
            await producer.send(b"y" * 100, properties=properties)
            await producer.close()
            found.append((await connection.ask("show", name=f"queue:{name}"))["bytes"])
        await (await session.producer("queue:batch")).send_batch(encode([b"y" * 100] * 50), confirm=True)
        batch = (await connection.ask("show", name="queue:batch"))["bytes"]
    assert found[0] == 100
    assert 600 < found[1] < 700
    assert 50 * 100 < batch < 50 * 110
