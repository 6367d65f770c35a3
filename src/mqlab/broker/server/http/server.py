"""A few pages over HTTP, for programs on this machine: GET only, one request a connection, bounded in all it takes."""

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

# A scraper is far quicker; a request that is slower is none.
_SECONDS: Final = 10.0
# A scraper opens one connection at a time.
_CONNECTIONS: Final = 16


# Writes a page in the form that the request accepts. It is called in a thread, so what it shows must not change.
PageRenderer = Callable[[str], HttpResponse]
# Called in the loop: takes what the page is to show.
Page = Callable[[], PageRenderer]


class HttpServer:
    """Serves until it is closed."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> int:
        """Returns the port, of interest if a free one was wanted (0). Raises OSError."""
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
        if len(self._tasks) >= _CONNECTIONS:
            writer.close()
            return
        self._tasks.add(task)
        try:
            async with asyncio.timeout(_SECONDS):
                await self._serve(reader, writer)
        except (TimeoutError, OSError, asyncio.CancelledError):
            # Too slow, gone, or the broker ends: there is nobody to tell.
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.HTTP_HEAD)
        method = b""
        try:
            request = await _request(connection, reader)
            if request is None:
                return
            method = request.method
            answer = await self._answer(request)
        except h11.RemoteProtocolError as error:
            answer = error_response(HTTPStatus(error.error_status_hint), "this is no HTTP request that is served here")
        writer.write(encode_response(connection, answer, method))
        await writer.drain()
        await _hung_up(reader, writer)

    async def _answer(self, request: h11.Request) -> HttpResponse:
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
        if not is_local(headers.get("host", "")):
            return error_response(HTTPStatus.MISDIRECTED_REQUEST, "ask for this machine by its loopback address")
        if request.method != b"GET":
            return error_response(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is served here", ("Allow", "GET"))
        page = self._pages.get(request.target.partition(b"?")[0].decode("latin-1"))
        if page is None:
            return error_response(HTTPStatus.NOT_FOUND, f"there are: {', '.join(self._pages)}")
        try:
            # Many destinations make a long page: the loop has messages to move meanwhile.
            return await asyncio.to_thread(page(), headers.get("accept", ""))
        except Exception:
            log.exception("a page could not be made")
            return error_response(
                HTTPStatus.INTERNAL_SERVER_ERROR, "the page could not be made; the broker's log says why"
            )


async def _request(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    """None: the peer left without a word. Raises RemoteProtocolError for what is none."""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(limits.HTTP_HEAD))
        else:
            return event if isinstance(event, h11.Request) else None


async def _hung_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Wait for the peer's end: closing over what it still sends would take the answer back."""
    with suppress(OSError):
        if writer.can_write_eof():
            writer.write_eof()
        while await reader.read(limits.HTTP_HEAD):
            pass
