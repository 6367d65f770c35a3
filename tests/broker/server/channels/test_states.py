"""A channel as its administrator sees it: what it is doing, and what he can do about it."""

import asyncio
import gc
from pathlib import Path
from typing import cast

import pytest
import trustme

from broker.server.raw_client import in_loop
from mqlab.broker.channel_settings import ChannelSettings
from mqlab.broker.security import passwords
from mqlab.broker.security.rights import Rights
from mqlab.broker.security.users import Users
from mqlab.broker.server.channels import channel as channel_module
from mqlab.broker.server.channels.channel import ChannelState
from mqlab.broker.server.channels.receiving_end import ReceivingEnd
from mqlab.broker.server.http.prometheus import PrometheusMetrics
from mqlab.client.errors import ClosedError, MessagingError, RefusedError
from mqlab.client.open_connection import open_connection
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import encode
from mqlab.wire.native.frames import Kind

from .pair import Pair, bodies, until


@in_loop
async def test_a_broker_that_is_not_there_is_tried_again_and_again(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        await pair.becomes("running")
        await pair.gate.close()
        assert (await pair.becomes("retrying"))["reason"]
        await pair.gate.open()
        status = await pair.becomes("running")
        assert (status["reason"], status["to"]) == ("", "B")
        assert status["address"] == f"unix:{tmp_path / 'gate'}"


@in_loop
async def test_prometheus_sees_it(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        await pair.becomes("running")
        await (await (await pair.session("A")).producer("queue:q@B")).send(b"1", persistent=True)
        await until(lambda: not pair.waiting())
        metrics = {metric.name: metric for metric in PrometheusMetrics(pair.brokers["A"]).snapshot().collect()}
        for name, value in (("running", 1), ("messages", 1), ("batches", 1), ("batch_size", 1), ("lost", 0)):
            (sample,) = metrics[f"mqlab_channel_{name}"].samples
            assert (sample.labels, sample.value) == ({"to": "B"}, value)
        (trip,) = metrics["mqlab_channel_round_trip_seconds"].samples
        assert 0 < trip.value < 30
        # A broker without channels says nothing of any.
        assert not [
            metric for metric in PrometheusMetrics(pair.brokers["B"]).snapshot().collect() if "channel" in metric.name
        ]


@in_loop
async def test_another_broker_at_that_address(tmp_path: Path) -> None:
    for called, words in (("C", "is called C, not B"), ("", "has no name, not B")):
        async with Pair(tmp_path, b={"name": called}) as pair:
            await until(lambda words=words, pair=pair: words in pair.status["reason"])  # type: ignore[misc] # mypy takes its default for a parameter


@in_loop
async def test_tls_and_what_is_wrong_with_it(tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    certificate, key = tmp_path / "certificate", tmp_path / "key"
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(key)
    for blob in issued.cert_chain_pems:
        blob.write_to_path(certificate, append=True)
    authority.cert_pem.write_to_path(tmp_path / "good")
    other.cert_pem.write_to_path(tmp_path / "other")
    far = {"listen": ("tls:127.0.0.1:0",), "tls_certificate": certificate, "tls_key": key}
    async with Pair(tmp_path, {"channels": ()}, far) as pair:
        (address,) = pair.addresses["B"]
        for ca, words in (("none", "cannot be read"), ("other", "certificate verify failed")):
            pair.brokers["A"].channels.add(ChannelSettings("B", str(address), ca=tmp_path / ca))
            await until(lambda words=words: words in pair.status["reason"])  # type: ignore[misc] # mypy takes its default for a parameter
            await pair.stop("A")
            await pair.start("A")
        pair.brokers["A"].channels.add(ChannelSettings("B", str(address), ca=tmp_path / "good"))
        await (await (await pair.session("A")).producer("queue:q@B")).send(b"1", persistent=True)
        await until(lambda: pair.depth("q") == 1)


@in_loop
async def test_what_another_broker_says_stays_on_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(native.frame(Kind.HELLO, {"version": native.VERSION, "name": "C\nforged\x1b[31m"}))
        await writer.drain()
        writer.close()

    async with Pair(tmp_path) as pair:
        await pair.gate.close()
        server = await asyncio.start_unix_server(greet, tmp_path / "gate")
        await until(lambda: "forged" in pair.status["reason"])
        server.close()
        assert all(one.getMessage().isprintable() for one in caplog.records)
        assert pair.status["reason"].isprintable()
        (tmp_path / "gate").unlink()


@in_loop
async def test_a_full_queue_blocks_the_channel_which_can_be_stopped(tmp_path: Path) -> None:
    async with Pair(tmp_path, b={"queue_limit": 1000, "producer_window": 1000}, batch=1) as pair:
        producer = await (await pair.session("A")).producer("queue:q@B")
        for _ in range(5):
            await producer.send_batch(encode([b"x" * 900]), persistent=True, confirm=True)
        await pair.becomes("blocked")
        channel = pair.brokers["A"].channels.get("B")
        await asyncio.wait_for(channel.stop(), 240)
        assert pair.status["state"] == "stopped"
        assert pair.brokers["A"].core.destinations.queues["transmit.B"].consumers == []
        channel.start()
        assert await bodies(await pair.session("B"), "queue:q", 5) == [b"x" * 900] * 5
        await pair.becomes("running")
        await until(lambda: not pair.waiting())


@in_loop
async def test_while_a_channel_is_stopped_messages_wait(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        admin = await pair.client("A")
        await admin.ask("stop_channel", to="B")
        (one,) = (await admin.ask("channels"))["channels"]
        assert (one["state"], one["reason"]) == ("stopped", "")
        session = await admin.session()
        producer = await session.producer("queue:q@B")
        await producer.send(b"1", persistent=True)
        assert pair.waiting() == 1
        await admin.ask("start_channel", to="B")
        assert await bodies(await pair.session("B"), "queue:q", 1) == [b"1"]
        for question in ("stop_channel", "start_channel"):
            with pytest.raises(RefusedError, match="there is no channel to 'C'"):
                await admin.ask(question, to="C")


@in_loop
async def test_stopped_twice_at_once_and_started_again(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        channel = pair.brokers["A"].channels.get("B")
        await asyncio.gather(channel.stop(), channel.stop())
        channel.start()
        channel.start()
        await pair.becomes("running")
        await (await (await pair.session("A")).producer("queue:q@B")).send(b"1", persistent=True)
        assert await bodies(await pair.session("B"), "queue:q", 1) == [b"1"]
        assert len(pair.brokers["A"].core.destinations.queues["transmit.B"].consumers) == 1


@in_loop
async def test_a_transmission_queue_can_be_purged_and_when_nobody_uses_it_deleted(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        admin = await pair.client("A")
        await pair.becomes("running")
        with pytest.raises(RefusedError, match="1 consumers"):
            await admin.ask("delete", name="queue:transmit.B")
        await admin.ask("stop_channel", to="B")
        session = await admin.session()
        for _ in range(2):
            producer = await session.producer("queue:q@B")
            await producer.send(b"lost", persistent=True)
            await admin.ask("purge", name="queue:transmit.B")
        await admin.ask("delete", name="queue:transmit.B")
        with pytest.raises(RefusedError, match="gone"):
            await producer.send(b"lost", persistent=True)
        await (await session.producer("queue:q@B")).send(b"1", persistent=True)
        await admin.ask("start_channel", to="B")
        assert await bodies(await pair.session("B"), "queue:q", 1) == [b"1"]


@in_loop
async def test_a_channel_is_added_while_the_broker_runs(tmp_path: Path) -> None:
    """What is sent through it waits for it after a restart, too."""
    async with Pair(tmp_path, {"channels": ()}) as pair:
        admin = await pair.client("A")
        session = await admin.session()
        with pytest.raises(RefusedError, match="no channel"):
            await session.producer("queue:q@B")
        await admin.ask("add_channel", to="B", address=f"unix:{tmp_path / 'gate'}", batch=5, retry=2)
        await (await session.producer("queue:q@B")).send(b"1", persistent=True)
        there = await pair.session("B")
        assert await bodies(there, "queue:q", 1) == [b"1"]
        for said, words in (
            ({"to": "B", "address": "unix:x"}, "a channel to B already"),
            ({"to": "A", "address": "unix:x"}, "A is this broker itself"),
            ({"to": "C D", "address": "unix:x"}, "to: 'C D'"),
            ({"to": "C", "address": "x"}, "address: "),
            ({"to": "C", "address": "unix:x", "batch": 0}, "batch: 0"),
            ({"to": "C"}, "needs address"),
        ):
            with pytest.raises(RefusedError, match=words):
                await admin.ask("add_channel", **said)
        await pair.stop("A")
        await pair.start("A")
        session = await pair.session("A")
        await (await session.producer("queue:q@B")).send(b"2", persistent=True)
        pair.brokers["A"].channels.add(ChannelSettings("B", f"unix:{tmp_path / 'gate'}"))
        assert await bodies(there, "queue:q", 1) == [b"2"]


@in_loop
async def test_a_broker_without_a_name_gets_no_channel(tmp_path: Path) -> None:
    async with Pair(tmp_path, b={"name": ""}) as pair:
        admin = await pair.client("B")
        with pytest.raises(RefusedError, match="needs a name"):
            await admin.ask("add_channel", to="C", address="unix:x")


@in_loop
async def test_who_may_see_and_change_channels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "COST", passwords.Cost(10, 8, 1))
    made, word = Users.empty(), "a long password"
    made.add("nobody", word, Rights().granted("admin", "queue:q"))
    made.add("one", word, Rights().granted("read", "queue:transmit.B").granted("admin", "queue:transmit.B"))
    made.add("all", word, Rights().granted("admin", "all"))
    made.write(tmp_path / "users")
    async with Pair(tmp_path, {"users": tmp_path / "users"}) as pair:
        one, every, nobody = [await pair.client("A", user=name, password=word) for name in ("one", "all", "nobody")]
        assert [channel["to"] for channel in (await one.ask("channels"))["channels"]] == ["B"]
        assert (await nobody.ask("channels"))["channels"] == []
        await one.ask("stop_channel", to="B")
        for question in ("stop_channel", "start_channel"):
            with pytest.raises(RefusedError, match="no right to administer"):
                await nobody.ask(question, to="B")
        with pytest.raises(RefusedError, match="one has no right to administer all"):
            await one.ask("add_channel", to="C", address="unix:x")
        await every.ask("add_channel", to="C", address="unix:x", user="u", password="the secret of C")
        assert "the secret" not in str(pair.brokers["A"].channels.status())


@in_loop
async def test_nobody_takes_over_a_connection_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "COST", passwords.Cost(10, 8, 1))
    made, word = Users.empty(), "a long password"
    for name in ("ann", "bob"):
        made.add(name, word, Rights())
    made.write(tmp_path / "users")
    async with Pair(tmp_path, b={"users": tmp_path / "users"}) as pair:
        address = f"unix:{tmp_path / 'B'}"
        first = await pair.client("B", user="ann", password=word, client_id="here")

        async def again(name: str, **more: object) -> None:
            native_connection = await open_connection(
                address, {"client_id": "here", "user": name, "password": word, **more}, None
            )
            await native_connection.close()

        for more in ({}, {"take_over": "yes"}):
            with pytest.raises(ClosedError, match="connected already"):
                await again("ann", **more)
        # The same client id of another user is another client.
        await again("bob", take_over=True)
        await first.status()
        await again("ann", take_over=True)
        with pytest.raises(ClosedError):
            await first.status()


@in_loop
async def test_work_that_fails_while_the_broker_does_not_answer_is_no_complaint_of_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "_PING_AFTER_S", 0.01)
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, said: complaints.append(said))
    asked, failed = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await asked.wait()
        failed.set()
        raise MessagingError("the work")

    class Silent:
        ended: asyncio.Future[MessagingError] = asyncio.get_running_loop().create_future()

        async def ping(self) -> str:
            asked.set()
            await failed.wait()
            raise MessagingError("the question")

    async with Pair(tmp_path) as pair:
        channel = pair.brokers["A"].channels.get("B")
        with pytest.raises(MessagingError, match="the question"):
            await channel._with_pings(cast(ReceivingEnd, Silent()), work(), ChannelState.RUNNING)
        gc.collect()
        assert complaints == []
