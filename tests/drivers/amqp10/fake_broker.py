"""A peer that speaks AMQP 1.0 by Proton's engine as a server, and does with a link what a test wants."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from proton import Collector, Connection, Event, Link, Transport

# Told of each link that a client opens.
OnLink = Callable[[Link], None]


@asynccontextmanager
async def fake_broker(on_link: OnLink) -> AsyncIterator[str]:
    """Its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        collector, connection, engine = Collector(), Connection(), Transport(Transport.SERVER)
        connection.collect(collector)
        sasl = engine.sasl()
        sasl.allowed_mechs("ANONYMOUS")
        engine.bind(connection)
        while data := await reader.read(65536):
            engine.push(data)
            while (event := collector.peek()) is not None:
                _answer(event, on_link)
                collector.pop()
            while (size := engine.pending()) > 0:
                writer.write(engine.peek(size) or b"")
                engine.pop(size)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield "tcp:{}:{}".format(*server.sockets[0].getsockname())


def _answer(event: Event, on_link: OnLink) -> None:
    if event.type == Event.CONNECTION_REMOTE_OPEN:
        assert event.connection is not None
        event.connection.open()
    elif event.type == Event.SESSION_REMOTE_OPEN:
        assert event.session is not None
        event.session.open()
    elif event.type == Event.LINK_REMOTE_OPEN:
        assert event.link is not None
        on_link(event.link)
    elif event.type == Event.CONNECTION_REMOTE_CLOSE:
        assert event.connection is not None
        event.connection.close()
