"""Headers of SUBSCRIBE and SEND that choose who gets a message, and a client on a Unix socket."""

import asyncio
from pathlib import Path

import pytest

from broker.server.raw_client import in_loop
from mqlab.broker.server.startup import running
from mqlab.broker.settings import Settings

from .stomp_clients import Client, Process, Raw, broker, frame

MIB = 1024 * 1024


@pytest.mark.parametrize("durable", [(), ("durable-subscription-name",)])
def test_a_shared_subscription_gives_each_message_to_one(process: Process, name: str, durable: tuple[str, ...]) -> None:
    options = dict.fromkeys(("shared", *durable), name)
    with Client(process.port) as one, Client(process.port) as two, Client(process.port) as sender:
        for client in (one, two):
            client.subscribe(f"/topic/{name}", **options)
        for number in range(4):
            sender.send(f"/topic/{name}", b"%d" % number)
        assert sorted(one.bodies(2) + two.bodies(2)) == [b"0", b"1", b"2", b"3"]
        assert one.nothing()
        assert two.nothing()


@pytest.mark.parametrize("header", ["no-local", "activemq.noLocal"])
def test_no_local_leaves_out_what_the_connection_sends_itself(process: Process, name: str, header: str) -> None:
    with Client(process.port) as client, Client(process.port) as other:
        client.subscribe(f"/topic/{name}", **{header: "true"})
        client.send(f"/topic/{name}", b"own")
        other.send(f"/topic/{name}", b"of another")
        assert client.bodies(1) == [b"of another"]
        assert client.nothing()


@pytest.mark.parametrize("header", ["exclusive", "activemq.exclusive"])
def test_an_exclusive_consumer_gets_all_until_it_ends(process: Process, name: str, header: str) -> None:
    with Client(process.port) as one, Client(process.port) as two:
        for client in (one, two):
            client.subscribe(f"/queue/{name}", **{header: "true"})
        for number in range(4):
            two.send(f"/queue/{name}", b"%d" % number)
        assert one.bodies(4) == [b"0", b"1", b"2", b"3"]
        one.unsubscribe()
        two.send(f"/queue/{name}", b"4")
        assert two.bodies(1) == [b"4"]


def test_a_group_stays_with_one_consumer(process: Process, name: str) -> None:
    with Client(process.port) as one, Client(process.port) as two:
        for client in (one, two):
            client.subscribe(f"/queue/{name}")
        for number in range(4):
            two.send(f"/queue/{name}", b"%d" % number, JMSXGroupID="g")
        assert one.bodies(4) == [b"0", b"1", b"2", b"3"]
        assert two.nothing()


@pytest.mark.parametrize("header", ["duplicate-id", "_AMQ_DUPL_ID"])
def test_a_message_with_an_id_that_was_sent_before_is_confirmed_and_discarded(
    process: Process, name: str, header: str
) -> None:
    with Client(process.port) as client:
        client.subscribe(f"/queue/{name}")
        for body in (b"1", b"again"):
            client.send(f"/queue/{name}", body, **{header: "7"})
        assert client.bodies(1) == [b"1"]
        assert client.nothing()


def test_a_body_of_16_mib_by_the_setting() -> None:
    """The setting counts 256 KiB for the headers."""
    with broker("--max-message-size=16640KiB") as process, Raw(process.port) as raw:
        raw.write("SEND", bytes(16 * MIB), destination="/queue/q", receipt="r")
        assert raw.read().headers["receipt-id"] == "r"
        raw.write("SUBSCRIBE", id="1", destination="/queue/q")
        assert raw.read().body == bytes(16 * MIB)
        raw.write("SEND", bytes(16 * MIB + 1), destination="/queue/q")
        assert f"the limit is {16 * MIB}" in raw.is_ended().headers["message"]


@in_loop
async def test_on_a_unix_socket_too(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with running(Settings(listen=(f"unix:{path}",))):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(frame("CONNECT", **{"accept-version": "1.2", "host": "here"}))
        writer.write(frame("SUBSCRIBE", id="1", destination="/queue/q"))
        writer.write(frame("SEND", b"hello", destination="/queue/q"))
        assert (await reader.readuntil(b"hello\0")).startswith(b"CONNECTED\n")
        writer.write(frame("DISCONNECT", receipt="bye"))
        assert await reader.read() == b"RECEIPT\nreceipt-id:bye\n\n\0"
        writer.close()
