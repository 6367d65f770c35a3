"""Knobs of the studies: the activity trace and the API trace, one switched at a time."""

import asyncio
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from broker.server.raw_client import in_loop, local
from broker.server.trace.traced_clients import named, operations, recorded
from mqlab.broker.server.startup import running
from mqlab.broker.server.trace.reader import ActivityTraceReader
from mqlab.broker.server.trace.stanzas import Stanza, write_stanzas
from mqlab.broker.settings import Level
from mqlab.cli.broker.trace import TraceFile
from mqlab.client import aio
from mqlab.wire.address import Address


async def round_trip(address: Address, number: int) -> None:
    """Requester n asks, responder n replies; both leave."""
    asking, answering = await named(address, f"Requester{number}"), await named(address, f"Responder{number}")
    requester = await (await asking.session()).requester(f"queue:requests{number}", reply_to="queue:replies")
    session = await answering.session()
    consumer = await session.consumer(f"queue:requests{number}")
    task = asyncio.ensure_future(requester.request(b"question", correlation_id="c1"))
    await session.reply(await consumer.receive(), b"reply")
    assert (await task).body == b"reply"
    for connection in (asking, answering):
        await connection.close()


@pytest.mark.parametrize("level", ["off", "low", "medium", "high"])
@in_loop
async def test_activity_trace_level(level: Level) -> None:
    async with running(local(trace=level)) as (_, (address,)):
        await round_trip(address, 0)
        found = await recorded(address)
    if level == "off":
        assert found == []
        return
    mine = operations([one for one in found if one["application"] == "Requester0"])
    for wanted in (("connect", ""), ("open", "queue:requests0"), ("put", "queue:requests0"),
                   ("get-by-id", "queue:replies"), ("disconnect", "")):  # fmt: skip
        assert wanted in mine
    (put,) = [one for one in found if (one["operation"], one["destination"]) == ("put", "queue:requests0")]
    detail = json.loads(put["detail"] or "{}")
    assert ("correlation_id" in detail, "reply_to" in detail) == (level != "low", level == "high")
    assert detail.get("body") == ("question" if level == "high" else None)


@in_loop
async def test_activity_trace_scope_by_application_stanza(tmp_path: Path) -> None:
    """As in the study: a stanza for each traced application, and a last one that keeps all others out."""
    path = tmp_path / "stanzas"
    traced = [Stanza(f"{role}{number}", "low") for number in (0, 1) for role in ("Requester", "Responder")]
    write_stanzas(path, traced, default="off")
    async with running(local(trace="high", trace_file=path)) as (_, (address,)):
        for number in (0, 1, 10, 2):
            await round_trip(address, number)
        found = await recorded(address)
    assert {one["application"] for one in found} == {one.name for one in traced}
    assert {one["detail"] for one in found} == {""}


@in_loop
async def test_activity_trace_with_default_file(tmp_path: Path) -> None:
    """A file that nobody edited says nothing of any application: once tracing is on, all of them are traced."""
    path = tmp_path / "stanzas"
    path.write_text("# ApplicationTrace:\n#   ApplName=*\n#   Trace=OFF\n")
    async with running(local(trace="medium", trace_file=path)) as (_, (address,)):
        await round_trip(address, 0)
        await round_trip(address, 1)
        found = await recorded(address)
    assert {one["application"] for one in found} == {"Requester0", "Requester1", "Responder0", "Responder1"}


@in_loop
async def test_activity_trace_read_out_to_a_file(tmp_path: Path) -> None:
    """What is read out is in the file, and no longer in the broker."""
    async with running(local(trace="low")) as (_, (address,)):
        await round_trip(address, 0)
        connection = await aio.connect(str(address), application="reader")
        reader = await ActivityTraceReader.open(connection)
        file = TraceFile(tmp_path / "trace.parquet")
        async for table in reader.tables():
            file.add(table)
        file.finish()
        reader.done()
        await reader.close()
        await connection.close()
        left = await recorded(address)
    found = pq.read_table(tmp_path / "trace.parquet").to_pylist()
    assert {"Requester0", "Responder0"} <= {one["application"] for one in found}
    assert ("put", "queue:requests0") in operations(found)
    assert left == []


@in_loop
async def test_mq_trace_api_level(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    async with running(local(api_trace=path)) as (_, (address,)):
        await round_trip(address, 0)
    text = path.read_text()
    calls = [tuple(line.split("\t")[2:5]) for line in text.splitlines()]
    for wanted in (("in", "REQUEST"), ("out", "DELIVER"), ("in", "OPEN_CONSUMER")):
        assert ('"Requester0"', *wanted) in calls
    assert ('"Responder0"', "out", "DELIVER") in calls
    assert "\tcore\t" not in text
    assert "question" not in text


@in_loop
async def test_mq_trace_internal(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    async with running(local(data=tmp_path / "data", api_trace=path, api_trace_internal=True)) as (_, (address,)):
        await round_trip(address, 0)
    text = path.read_text()
    for wanted in ("core\tDeliver", "core\tAppend:Declare", "journal\twrite", "in\tSEND"):
        assert f"\t{wanted}\t" in text
