"""Several brokers: queues of another one, and clients that keep their messages themselves."""

import asyncio
from pathlib import Path

import pytest

from broker.server.raw_client import in_loop
from mqlab.broker.channel_settings import ChannelSettings
from mqlab.broker.server.inprocess.local_broker import LocalBroker
from mqlab.broker.settings import Settings
from mqlab.client import aio

from .broker_process import BrokerProcess
from .message_helpers import receive


def site(folder: Path, name: str, to: str, other: Path) -> BrokerProcess:
    folder.mkdir()
    channel = f"{to}=unix:{other / 'socket'}"
    return BrokerProcess(folder, "--data", str(folder / "data"), "--name", name, "--channel", channel)


@in_loop
async def test_distributed_queueing_between_two_queue_managers(tmp_path: Path) -> None:
    """Requests and replies cross two brokers with a channel each way; one is killed, and what it had goes on."""
    a = site(tmp_path / "a", "A", "B", tmp_path / "b")
    b = site(tmp_path / "b", "B", "A", tmp_path / "a")
    async with a, b:
        async with await aio.connect(a.address) as here, await aio.connect(b.address) as there:
            asking, answering = await here.session(), await there.session()
            questions = await answering.consumer("queue:questions")
            requester = await asking.requester("queue:questions@B", reply_to="queue:replies", persistent=True)
            asked = asyncio.ensure_future(requester.request(b"?", timeout=240))
            await answering.reply(await questions.receive(30), b"!", persistent=True)
            assert (await asked).body == b"!"
        # While B is away A keeps what is for it, over a death of its own.
        await b.kill()
        async with await aio.connect(a.address) as here:
            producer = await (await here.session()).producer("queue:orders@B")
            for number in range(5):
                await producer.send(b"%d" % number, persistent=True)
        await a.kill()
        await b.start()
        await a.start()
        async with await aio.connect(b.address) as there:
            consumer = await (await there.session()).consumer("queue:orders")
            assert await receive(consumer, 5) == [b"0", b"1", b"2", b"3", b"4"]


@in_loop
async def test_dependent_against_independent_storing_client(tmp_path: Path) -> None:
    """A dependent client fails with its broker. An independent one has a broker inside, which stores and forwards."""
    server = BrokerProcess(tmp_path, "--data", str(tmp_path / "server"), "--name", "server")
    channel = ChannelSettings("server", server.address, retry=1)
    client = Settings.flat(name="client", listen=(), data=tmp_path / "client", channels=(channel,))
    async with server:
        await server.kill()
        with pytest.raises(OSError):
            await aio.connect(server.address)
        for number in range(2):
            # The program ends and begins again meanwhile: its messages are on its disk.
            async with LocalBroker(client), await aio.connect("bindings:client") as inside:
                producer = await (await inside.session()).producer("queue:orders@server")
                await producer.send(b"%d" % number, persistent=True)
        await server.start()
        async with LocalBroker(client), await aio.connect(server.address) as there:
            consumer = await (await there.session()).consumer("queue:orders")
            assert await receive(consumer, 2) == [b"0", b"1"]
