"""Who is traced and when that changes; how records come to their queue, and what happens when nobody reads them."""

import asyncio
import logging
import os
from pathlib import Path

import pytest

from broker.server.native_connections import native_connections
from broker.server.raw_client import Raw, client, in_loop, local
from broker.server.trace.traced_clients import named, recorded
from mqlab.broker.security.rights import Rights, User
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.native.connection import NativeServerConnection
from mqlab.broker.server.startup import running
from mqlab.broker.server.trace import activity_trace
from mqlab.broker.server.trace.stanzas import Stanza, StanzaError, write_stanzas
from mqlab.broker.server.trace.traced_links import TRACE_QUEUE
from mqlab.broker.settings import Level
from mqlab.client import aio
from mqlab.client.errors import RefusedError
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import encode
from mqlab.wire.native.frames import Kind


async def put(connection: aio.Connection, count: int = 1) -> None:
    producer = await (await connection.session()).producer("queue:a")
    for _ in range(count):
        await producer.send_batch(encode([b"x"]), confirm=True)


async def levels(connection: aio.Connection) -> dict[str, Level]:
    """Of the connections that are recorded now."""
    return {one["application"]: one["level"] for one in (await connection.ask("trace"))["applications"]}


class TestWho:
    @in_loop
    async def test_nobody_unless_it_is_said(self) -> None:
        async with running(local()) as (broker, (address,)):
            connection = await named(address, "App")
            await put(connection)
            assert await levels(connection) == {}
            assert await recorded(address) == []
            assert broker.activity.records == 0

    @in_loop
    async def test_the_stanzas_of_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "stanzas"
        write_stanzas(path, [Stanza("Requester0", "high"), Stanza("Requester*", "low")], default="off")
        async with running(local(trace="medium", trace_file=path)) as (_, (address,)):
            for name in ("Requester0", "Requester1", "Responder0"):
                last = await named(address, name)
                await put(last)
            assert await levels(last) == {"Requester0": "high", "Requester1": "low"}
            found = await recorded(address)
            assert {one["application"] for one in found} == {"Requester0", "Requester1"}
            assert all('"body":"x"' in one["detail"] for one in found if one["operation"] == "put"
                       and one["application"] == "Requester0")  # fmt: skip

    @in_loop
    async def test_a_bad_file_is_refused_at_the_start(self, tmp_path: Path) -> None:
        path = tmp_path / "stanzas"
        path.write_text("ApplicationTrace:\n  Trace=ON\n")
        with pytest.raises(StanzaError, match=f"{path}:1: a stanza needs ApplName"):
            async with running(local(data=tmp_path / "data", trace_file=path)):
                pass
        # Nothing is held: it can be started as soon as the file is right.
        path.write_text("")
        async with running(local(data=tmp_path / "data", trace_file=path)):
            pass

    @in_loop
    async def test_a_changed_file_holds_for_open_connections(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(activity_trace, "_FILE_CHECK_SECONDS", 0.01)
        path = tmp_path / "stanzas"
        write_stanzas(path, [], default="off")
        async with running(local(trace_file=path)) as (broker, (address,)):
            connection = await named(address, "App")
            await put(connection)
            (served,) = native_connections(broker)
            write_stanzas(path, [Stanza("App", "high")])
            while served.operation_recorder is None:
                await asyncio.sleep(0.005)
            await put(connection)
            assert "put" in [one["operation"] for one in await recorded(address, "App")]
            write_stanzas(path, [Stanza("App", "off")])
            while served.operation_recorder is not None:
                await asyncio.sleep(0.005)
            await recorded(address)
            await put(connection)
            assert await recorded(address, "App") == []

    @in_loop
    async def test_a_file_that_went_wrong_changes_nothing_and_is_told_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(activity_trace, "_FILE_CHECK_SECONDS", 0.005)
        path = tmp_path / "stanzas"
        write_stanzas(path, [Stanza("App", "low")])
        async with running(local(trace_file=path)) as (_, (address,)):
            connection = await named(address, "App")
            path.write_text("ApplName=App\n")
            while "keeps its levels" not in caplog.text:
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.05)
            assert caplog.text.count("must begin with ApplicationTrace:") == 1
            assert await levels(connection) == {"App": "low"}
            os.unlink(path)
            while "cannot be read" not in caplog.text:
                await asyncio.sleep(0.005)
            assert await levels(connection) == {"App": "low"}

    @in_loop
    async def test_a_question_reads_the_file_again_at_once(self, tmp_path: Path) -> None:
        path = tmp_path / "stanzas"
        write_stanzas(path, [])
        async with running(local(trace_file=path)) as (_, (address,)):
            connection = await named(address, "App")
            write_stanzas(path, [Stanza("App", "low")])
            assert await levels(connection) == {"App": "low"}
            path.write_text("nonsense")
            with pytest.raises(RefusedError, match=r"stanzas:1: the file must begin with"):
                await connection.ask("trace")
            assert await levels(connection) == {"App": "low"}


class TestAtRunTime:
    @in_loop
    async def test_levels_are_set_and_taken_back(self, tmp_path: Path) -> None:
        path = tmp_path / "stanzas"
        write_stanzas(path, [Stanza("App1", "low")])
        async with running(local(trace_file=path)) as (_, (address,)):
            asking = await named(address, "App1")
            await named(address, "App2")
            await asking.ask("trace", level="medium")
            assert await levels(asking) == {"App1": "low", "App2": "medium"}
            await asking.ask("trace", level="high", application="App*")
            assert await levels(asking) == {"App1": "high", "App2": "high"}
            await asking.ask("trace", level="off", application="App1")
            assert await levels(asking) == {"App2": "high"}
            said = (await asking.ask("trace"))["said"]
            assert said == [{"application": "App1", "level": "off"}, {"application": "App*", "level": "high"}]
            for name in ("App1", "App*"):
                await asking.ask("trace", level="default", application=name)
            assert await levels(asking) == {"App1": "low", "App2": "medium"}
            await asking.ask("trace", level="off")
            assert await levels(asking) == {"App1": "low"}

    @pytest.mark.parametrize(
        ("asked", "words"),
        [
            ({"level": "loud"}, "'loud' is none of off, low, medium, high, default"),
            ({"level": "low", "application": "a*b"}, "a star may stand at the end"),
            ({"level": "default"}, "name a level, or an application"),
            ({"level": 7}, "the request needs level"),
        ],
    )
    @in_loop
    async def test_nonsense_changes_nothing(self, asked: dict[str, object], words: str) -> None:
        async with running(local(trace="low")) as (_, (address,)):
            connection = await named(address, "App")
            with pytest.raises(RefusedError, match=words.replace("*", r"\*")):
                await connection.ask("trace", **asked)
            assert await levels(connection) == {"App": "low"}

    @pytest.mark.parametrize(
        ("rights", "look", "change"),
        [
            (Rights(), False, False),
            (Rights(admin=("queue:other",), read=("queue:other",)), False, False),
            (Rights(read=(TRACE_QUEUE,)), True, False),
            (Rights(admin=("queue:#",)), True, True),
        ],
    )
    @in_loop
    async def test_who_may(self, monkeypatch: pytest.MonkeyPatch, rights: Rights, look: bool, change: bool) -> None:
        async with running(local(trace="low")) as (_, (address,)):
            connection = await client(address)
            monkeypatch.setattr(NativeServerConnection, "user", User("ann", rights))
            for asked, allowed in (({}, look), ({"level": "high"}, change)):
                if allowed:
                    await connection.ask("trace", **asked)
                else:
                    with pytest.raises(RefusedError, match=f"ann has no right to administer {TRACE_QUEUE}"):
                        await connection.ask("trace", **asked)

    @in_loop
    async def test_who_has_not_said_its_name_is_nobody_yet(self) -> None:
        async with running(local()) as (_, (address,)):
            stranger = await Raw.connect(address, greet=False)
            await (await named(address, "App")).ask("trace", level="low")
            stranger.write(native.frame(Kind.HELLO, {"version": native.VERSION, "application": "Late"}))
            await stranger.read_until(Kind.HELLO)
            assert [one["operation"] for one in await recorded(address, "Late")] == ["connect"]

    @in_loop
    async def test_the_level_of_a_connection_can_change_in_its_midst(self) -> None:
        async with running(local(trace="low")) as (_, (address,)):
            connection = await named(address, "App")
            await put(connection)
            await connection.ask("trace", level="high")
            await put(connection)
            low, high = [one for one in await recorded(address, "App") if one["operation"] == "put"]
            assert low["detail"] == ""
            assert '"body":"x"' in high["detail"]


class TestQueue:
    @in_loop
    async def test_records_come_by_themselves(self) -> None:
        async with running(local(trace="low")) as (broker, (address,)):
            connection = await named(address, "App")
            consumer = await (await connection.session()).consumer(TRACE_QUEUE)
            # Half a second after the connection came.
            assert (await consumer.receive(20)).persistent is False
            assert broker.activity.records > 0

    @in_loop
    async def test_many_records_are_few_messages(self) -> None:
        async with running(local(trace="low")) as (broker, (address,)):
            connection = await named(address, "App")
            producer = await (await connection.session()).producer("queue:a")
            for _ in range(4_000):
                await producer.send_batch(encode([b""]))
            await connection.status()
            found = await recorded(address, "App")
            assert len(found) == 4_000 + 4
            assert 2 <= broker.activity.batches <= 20

    @in_loop
    async def test_nobody_waits_when_nobody_reads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(activity_trace, "_QUEUE_BYTES", 30_000)
        async with running(local(trace="high")) as (broker, (address,)):
            connection = await named(address, "App")
            for _ in range(60):
                await put(connection, 5)
                broker.activity.flush()
            status = await connection.ask("trace")
            assert status["dropped"] > 0
            assert status["bytes"] < status["limit"] + 20_000
            assert (await connection.status())["holds"] == 0
            shown = await connection.ask("show", name=TRACE_QUEUE)
            assert shown["counters"]["dropped"] == status["dropped"]
            # The newest are there.
            found = await recorded(address, "App")
            assert found[-1]["operation"] == "ask"

    @in_loop
    async def test_a_reader_that_is_never_done_does_not_make_it_grow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(activity_trace, "_QUEUE_BYTES", 20_000)
        async with running(local(trace="high")) as (broker, (address,)):
            reading, connection = await client(address), await named(address, "App")
            await (await reading.session("client")).consumer(TRACE_QUEUE, prefetch=1_000)
            for _ in range(60):
                await put(connection, 5)
                broker.activity.flush()
            status = await connection.ask("trace")
            assert status["bytes"] < 40_000
            assert status["dropped"] > 0

    @in_loop
    async def test_when_nobody_is_recorded_any_more_nothing_is_looked_at(self) -> None:
        async with running(local()) as (broker, (address,)):
            traced = broker.activity
            asking = await named(address, "App1")
            other = await named(address, "App2")
            for _ in range(2):
                await asking.ask("trace", level="low")
                assert traced._check_timer is not None
                await asking.ask("trace", level="off")
                while traced._check_timer is not None:
                    await asyncio.sleep(0.005)
            await asking.ask("trace", level="low", application="App2")
            await other.close()
            while traced._check_timer is not None:
                await asyncio.sleep(0.005)
            found = await recorded(address, "App2")
            assert [one["operation"] for one in found] == ["disconnect"]

    @in_loop
    async def test_it_takes_a_part_of_the_memory_at_most(self) -> None:
        async with running(local(trace="low", memory_limit=80_000)) as (broker, _):
            assert broker.activity.status()["limit"] == 10_000

    @in_loop
    async def test_a_broker_that_ends_leaves_no_timer(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        path = tmp_path / "stanzas"
        write_stanzas(path, [Stanza("*", "low")])
        brokers: list[Broker] = []
        with caplog.at_level(logging.WARNING):
            async with running(local(trace_file=path)) as (broker, (address,)):
                brokers.append(broker)
                await put(await named(address, "App"))
            (ended,) = brokers
            assert ended.activity._check_timer is None or ended.activity._check_timer.cancelled()
            assert ended.activity._file_timer is not None
            assert ended.activity._file_timer.cancelled()
