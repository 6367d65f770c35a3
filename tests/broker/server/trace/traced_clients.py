"""Clients with application names, and the trace records of each."""

from broker.server import raw_client
from mqlab.broker.server.trace.reader import ActivityTraceReader
from mqlab.client import aio
from mqlab.wire.address import Address
from table_rows import Row

Record = Row


async def named(address: Address, application: str) -> aio.Connection:
    """A connection of that application, closed with the test."""
    connection = await aio.connect(str(address), application=application)
    raw_client.opened.append(connection)
    return connection


async def read_trace(connection: aio.Connection) -> list[Record]:
    """Consume all records up to now."""
    reader = await ActivityTraceReader.open(connection)
    records = [record async for table in reader.tables() for record in table.to_pylist()]
    reader.done()
    await reader.close()
    return records


async def recorded(address: Address, application: str | None = None) -> list[Record]:
    """What was recorded since the last look, in order of time; of one application, or of all but who looks here."""
    reader = await aio.connect(str(address), application="reader")
    records = await read_trace(reader)
    await reader.close()
    found = sorted(records, key=lambda one: int(one["t"]))
    wanted = [one for one in found if one["application"] != "reader"]
    return [one for one in wanted if application is None or one["application"] == application]


def operations(records: list[Record]) -> list[tuple[str, str]]:
    return [(one["operation"], one["destination"]) for one in records]


def one_of(records: list[Record], operation: str) -> Record:
    (found,) = (one for one in records if one["operation"] == operation)
    return found
