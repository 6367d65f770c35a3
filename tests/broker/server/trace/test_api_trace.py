"""The API trace: a line for every call."""

import asyncio
import errno
import json
import os
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.server.native_connections import native_connections
from broker.server.raw_client import Raw, client, in_loop, local
from broker.server.trace.traced_clients import named
from mqlab.broker import limits
from mqlab.broker.server.startup import running
from mqlab.broker.server.trace import api_trace
from mqlab.broker.server.trace.api_trace import COLUMNS
from mqlab.broker.settings import SettingError
from mqlab.client.errors import RefusedError
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import encode
from mqlab.wire.native.frames import Kind


class Line(NamedTuple):
    time: int
    connection: str
    application: str
    direction: str
    kind: str
    session: int
    link: int
    first: int
    amount: int
    flags: int
    length: int
    destination: str


def lines(path: Path) -> list[Line]:
    """Every line has all columns, and texts that are JSON."""
    heading, *rest = path.read_text(encoding="ascii").splitlines()
    assert tuple(heading.split("\t")) == COLUMNS == Line._fields
    found = []
    for line in rest:
        cells = line.split("\t")
        assert len(cells) == len(COLUMNS), line
        time, connection, application, direction, kind, *numbers, destination = cells
        session, link, first, amount, flags, length = map(int, numbers)
        found.append(Line(int(time), connection, json.loads(application), direction, kind, session, link, first, amount,
                          flags, length, json.loads(destination)))  # fmt: skip
    return found


@in_loop
async def test_every_call_in_and_out(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    async with running(local(api_trace=path)) as (_, (address,)):
        connection = await named(address, "Requester 0")
        session = await connection.session()
        producer, consumer = await session.producer("queue:a"), await session.consumer("queue:a", prefetch=5)
        await producer.send_batch(encode([b"x" * 100, b"y"]), confirm=True)
        await consumer.receive()
        await connection.close()
    found = [line for line in lines(path) if line.connection == "1"]
    assert [(line.direction, line.kind) for line in found if line.kind not in ("ACKNOWLEDGE", "CLOSE", "CLOSED")] == [
        ("in", "HELLO"), ("out", "HELLO"), ("in", "OPEN_SESSION"), ("out", "OPENED"),
        ("in", "OPEN_PRODUCER"), ("out", "OPENED"), ("out", "CREDIT"), ("in", "OPEN_CONSUMER"), ("out", "OPENED"),
        ("in", "SEND"), ("out", "CONFIRM"), ("out", "DELIVER"), ("out", "END"),
    ]  # fmt: skip
    assert {line.application for line in found} == {"Requester 0"}
    by_kind = {line.kind: line for line in found}
    send, deliver = by_kind["SEND"], by_kind["DELIVER"]
    assert (send.link, send.first, send.amount, send.flags) == (1, 1, 2, native.Flag.CONFIRM)
    assert send.length == deliver.length > 100
    assert (send.destination, deliver.destination, by_kind["CREDIT"].destination) == ("queue:a",) * 3
    assert [line.time for line in found] == sorted(line.time for line in found)


@in_loop
async def test_every_application_is_there(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    async with running(local(api_trace=path)) as (_, (address,)):
        for name in ("one", "two", "three"):
            await named(address, name)
    assert {(line.connection, line.application) for line in lines(path)} == {("1", "one"), ("2", "two"), ("3", "three")}


@pytest.mark.parametrize("name", ['queue:a"\n1\t2\tforged', "queue:\u2028\x1b[2J", "queue:\ud800", "x" * 5000, 7, None])
@in_loop
async def test_no_name_can_forge_a_line(tmp_path: Path, name: object) -> None:
    path = tmp_path / "trace"
    async with running(local(api_trace=path)) as (_, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        raw.write(native.frame(Kind.OPEN_PRODUCER, {"destination": name}, session=1, link=1))
        await raw.read_until(Kind.ERROR)
    (opening,) = [line for line in lines(path) if line.kind == "OPEN_PRODUCER"]
    assert opening.destination == (name[:255] if isinstance(name, str) else "")


@in_loop
async def test_strangers_and_broken_rules_are_traced(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    async with running(local(api_trace=path)) as (_, (address,)):
        raw = await Raw.connect(address, greet=False)
        raw.write(native.header(Kind.COMMIT, session=7))
        await raw.is_ended()
    assert [(line.direction, line.kind, line.session) for line in lines(path)] == [
        ("in", "COMMIT", 7), ("out", "ERROR", 0), ("out", "END", 0),
    ]  # fmt: skip


@in_loop
async def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    async with running(local(api_trace=path)):
        assert path.stat().st_mode & 0o777 == 0o600


@in_loop
async def test_what_the_core_and_the_journal_do(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    async with running(local(data=tmp_path / "data", api_trace=path, api_trace_internal=True)) as (_, (address,)):
        connection = await named(address, "App")
        session = await connection.session("transacted")
        producer, consumer = await session.producer("queue:a"), await session.consumer("queue:a")
        await producer.send(b"x", persistent=True)
        await session.commit()
        await consumer.receive()
        await session.rollback()
    found = lines(path)
    inside = [line for line in found if line.direction in ("core", "journal")]
    kinds = [f"{line.direction} {line.kind}" for line in inside]
    for wanted in ("core Append:Declare", "core Append:Commit", "core Committed", "core Deliver", "core RolledBack",
                   "core Credit", "journal write", "journal sync", "journal durable"):  # fmt: skip
        assert wanted in kinds
    assert kinds.index("core Append:Commit") < kinds.index("journal durable", kinds.index("journal sync"))
    deliver = next(line for line in inside if line.kind == "Deliver")
    assert (deliver.connection, deliver.application, deliver.destination, deliver.first) == ("1", "App", "queue:a", 1)


@in_loop
async def test_without_internal_there_is_nothing_of_the_core(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    async with running(local(data=tmp_path / "data", api_trace=path)) as (_, (address,)):
        producer = await (await (await client(address)).session()).producer("queue:a")
        await producer.send(b"x", persistent=True)
    assert {line.direction for line in lines(path)} == {"in", "out"}


@in_loop
async def test_it_is_switched_while_clients_are_connected(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    async with running(local(api_trace=path)) as (broker, (address,)):
        admin, connection = await client(address), await named(address, "Client")
        session = await connection.session()
        producer = await session.producer("queue:a")
        assert (await admin.ask("api_trace"))["on"]
        await producer.send_batch(encode([b"traced"]), confirm=True)
        assert not (await admin.ask("api_trace", on="no"))["on"]
        assert all(one.call_recorder is None for one in native_connections(broker))
        await producer.send_batch(encode([b"not"]), confirm=True)
        late, left = await named(address, "Late"), await named(address, "Left")
        await left.close()
        late_producer = await (await late.session()).producer("queue:a")
        assert (await admin.ask("api_trace", on="yes"))["on"]
        await producer.send_batch(encode([b"again"]), confirm=True)
        await late_producer.send_batch(encode([b"late"]), confirm=True)
        await connection.close()
        await late.close()
    assert [line.first for line in lines(path) if line.application == "Client" and line.kind == "SEND"] == [1, 3]
    of_late = [(line.kind, line.destination) for line in lines(path) if line.application == "Late"]
    assert of_late[0] == ("SEND", "queue:a")
    assert of_late[-1][0] == "END"
    assert not [line for line in lines(path) if line.application == "Left"]


@in_loop
async def test_a_client_that_does_not_log_in_is_cut_off_although_the_trace_is_switched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HELLO_SECONDS", 0.5)
    async with running(local(api_trace=tmp_path / "trace")) as (_, (address,)):
        admin = await client(address)
        host, port = str(address).removeprefix("tcp:").rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port))
        await admin.ask("api_trace", on="no")
        await admin.ask("api_trace", on="yes")
        async with asyncio.timeout(240):
            await reader.read()
        writer.close()
        await writer.wait_closed()


@in_loop
async def test_a_broker_without_its_file_says_so(tmp_path: Path) -> None:
    async with running(local()) as (_, (address,)):
        with pytest.raises(RefusedError, match="started without api_trace"):
            await (await client(address)).ask("api_trace", on="yes")
    async with running(local(api_trace=tmp_path / "trace")) as (_, (address,)):
        with pytest.raises(RefusedError, match="neither yes nor no"):
            await (await client(address)).ask("api_trace", on="maybe")


class TestFile:
    @pytest.mark.parametrize("where", ["missing/trace", "."])
    @in_loop
    async def test_one_that_cannot_be_written_is_refused_at_the_start(self, tmp_path: Path, where: str) -> None:
        with pytest.raises(SettingError, match=r"api_trace: .* cannot be written: "):
            async with running(local(api_trace=tmp_path / where)):
                pass

    @in_loop
    async def test_a_full_disk_ends_the_trace_and_nothing_else(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        real = os.write

        def full(file: int, data: bytes) -> int:
            # Half of it still finds room.
            if b"OPEN_SESSION" in bytes(data):
                return real(file, data[: len(data) // 2])
            if re.match(rb"\d", bytes(data[:1])) or b"\t" in bytes(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(file, data)

        path = tmp_path / "trace"
        async with running(local(api_trace=path, api_trace_internal=True)) as (broker, (address,)):
            monkeypatch.setattr(os, "write", full)
            connection = await client(address)
            session = await connection.session()
            producer, consumer = await session.producer("queue:a"), await session.consumer("queue:a")
            while "the API trace ends here" not in caplog.text:
                await asyncio.sleep(0.01)
            await producer.send(b"still")
            assert (await consumer.receive()).body == b"still"
            assert (await (await client(address)).status())["messages"] == 1
            assert broker.api_trace is not None
            assert broker.api_trace.calls == []
            assert all(one.call_recorder is None for one in native_connections(broker))
        assert caplog.text.count("No space left on device") == 1

    @in_loop
    async def test_what_waits_to_be_written_is_bounded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(api_trace, "_WRITE_SECONDS", 1000.0)
        monkeypatch.setattr(api_trace, "_MOST_WAITING", 50)
        path = tmp_path / "trace"
        async with running(local(api_trace=path)) as (broker, (address,)):
            connection = await client(address)
            for _ in range(200):
                await connection.status()
            assert broker.api_trace is not None
            assert len(broker.api_trace.calls) < 55
            assert len(lines(path)) > 300
