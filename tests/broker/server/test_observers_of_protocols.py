"""The activity trace, the API trace and the metrics see the clients of each protocol alike."""

import asyncio
from pathlib import Path

import pytest

from mqlab.broker.server.http.metrics import start_metrics
from mqlab.broker.server.startup import running
from mqlab.client import aio

from .http.test_metrics import Served
from .raw_client import client, in_loop, local
from .trace.traced_clients import Record, read_trace

crossing = pytest.importorskip("broker.server.test_crossing", reason="python-qpid-proton is not installed")

QUEUE = "observed"
# What a client does that sends a message to a queue and receives it.
OPERATIONS = {("open", f"queue:{QUEUE}"), ("put", f"queue:{QUEUE}"), ("get", f"queue:{QUEUE}")}


def exchange(protocol: str, port: int) -> None:
    with crossing.CLIENTS[protocol](port) as peer:
        peer.open(QUEUE)
        peer.send(QUEUE, crossing.Letter())
        peer.receive()


async def records_until_disconnect(connection: aio.Connection) -> list[Record]:
    """The records of the connection that has sent to the queue."""
    records: list[Record] = []
    while not any(record["operation"] == "disconnect" for record in records):
        records += await read_trace(connection)
    number = next(record["connection"] for record in records if record["operation"] == "put")
    return [record for record in records if record["connection"] == number]


@pytest.mark.parametrize("protocol", ["AMQP", "MQTT", "STOMP"])
@in_loop
async def test_trace_and_metrics_see_a_client(protocol: str, tmp_path: Path) -> None:
    api_trace = tmp_path / "api"
    settings = local(data=tmp_path / "data", trace="low", monitoring="high", api_trace=api_trace)
    async with running(settings) as (broker, (address,)):
        connection, metrics = await client(address), await start_metrics(broker, "127.0.0.1:0")
        await asyncio.to_thread(exchange, protocol, address.port)
        records = await records_until_disconnect(connection)
        samples = await Served(broker, connection, metrics).samples()
        await metrics.close()
    seen = {(record["operation"], record["destination"]) for record in records}
    assert OPERATIONS | {("connect", ""), ("disconnect", "")} <= seen
    acknowledged = [record for record in records if record["operation"] == "acknowledge"]
    assert {(record["destination"], record["code"]) for record in acknowledged} == {(f"queue:{QUEUE}", "ok")}
    assert sum(record["messages"] for record in records if record["operation"] == "put") == 1
    names = ("put_total", "delivered_total", "acknowledged_total")
    assert [samples[f"mqlab_{name}", f"queue:{QUEUE}"] for name in names] == [1, 1, 1]
    assert samples["mqlab_messages", f"queue:{QUEUE}"] == 0
    kinds = {line.split("\t")[4] for line in api_trace.read_text().splitlines()}
    assert {"SEND", "DELIVER", "ACKNOWLEDGE"} <= {kind.strip('"').upper() for kind in kinds}
