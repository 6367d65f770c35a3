"""Serves a few HTTP pages to programs on this machine: GET only, one request a connection, with limits."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Final

import h11

from mqlab.broker import limits
from mqlab.broker.server.http.responses import HttpResponse, encode_response, error_response, is_local

log: Final = logging.getLogger("mqlab.broker")

# The time for one request.
_REQUEST_SECONDS: Final = 10.0
# Connections at a time; a scraper opens one.
_MOST_CONNECTIONS: Final = 16


# Renders a page for the Accept header of a request. It runs in a thread, so its data must not change.
PageRenderer = Callable[[str], HttpResponse]
# Runs in the loop and takes the data of the page.
Page = Callable[[], PageRenderer]


class HttpServer:
    """Serves until it is closed."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> int:
        """Return the port (port 0: the one that was free). Raises OSError."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=limits.HTTP_HEAD)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= _MOST_CONNECTIONS:
            writer.close()
            return
        self._tasks.add(task)
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                await self._serve(reader, writer)
        except (TimeoutError, OSError, asyncio.CancelledError):
            # The client was too slow or has disconnected, or the broker stops.
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.HTTP_HEAD)
        method = b""
        try:
            request = await _read_request(connection, reader)
            if request is None:
                return
            method = request.method
            response = await self._response(request)
        except h11.RemoteProtocolError as error:
            response = error_response(
                HTTPStatus(error.error_status_hint), "this is not a request that this server accepts"
            )
        writer.write(encode_response(connection, response, method))
        await writer.drain()
        await _wait_for_close(reader, writer)

    async def _response(self, request: h11.Request) -> HttpResponse:
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
        if not is_local(headers.get("host", "")):
            return error_response(HTTPStatus.MISDIRECTED_REQUEST, "use a loopback address of this machine")
        if request.method != b"GET":
            return error_response(HTTPStatus.METHOD_NOT_ALLOWED, "this server accepts only GET", ("Allow", "GET"))
        page = self._pages.get(request.target.partition(b"?")[0].decode("latin-1"))
        if page is None:
            return error_response(HTTPStatus.NOT_FOUND, f"the pages are: {', '.join(self._pages)}")
        try:
            # A page about many destinations takes long, so a thread renders it.
            return await asyncio.to_thread(page(), headers.get("accept", ""))
        except Exception:
            log.exception("a page could not be rendered")
            return error_response(
                HTTPStatus.INTERNAL_SERVER_ERROR, "the page could not be rendered; see the broker's log"
            )


async def _read_request(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    """Return None if the client sends no request. Raises RemoteProtocolError."""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(limits.HTTP_HEAD))
        else:
            return event if isinstance(event, h11.Request) else None


async def _wait_for_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Wait until the client closes: a close before it has sent all would discard the response."""
    with suppress(OSError):
        if writer.can_write_eof():
            writer.write_eof()
        while await reader.read(limits.HTTP_HEAD):
            pass
