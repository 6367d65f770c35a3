"""A broker process and its clients: stomp.py, and a socket that sends any bytes."""

import queue
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import stomp
from stomp.utils import Frame as StompPyFrame
from websocket import WebSocketException

from mqlab.wire.stomp.decoder import Limits, StompFrameDecoder
from mqlab.wire.stomp.frames import StompFrame

SECONDS = 240.0
VERSIONS = ("1.0", "1.1", "1.2")
# stomp.py writes text if it is not told otherwise, whatever a body is.
WEBSOCKET, BINARY_WEBSOCKET = "1.2 over WebSocket", "1.2 over binary WebSocket"
CLASSES = {
    "1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12, WEBSOCKET: stomp.WSConnection,
    BINARY_WEBSOCKET: partial(stomp.WSConnection, binary_mode=True),
}  # fmt: skip


# What stomp.py raises when the broker has closed the socket, its own exceptions and those of what it stands on;
# AttributeError where its other thread has let go of the socket meanwhile.
_CLOSED = (stomp.exception.StompException, WebSocketException, OSError, AttributeError)


Heard = TypeVar("Heard")


class Process:
    """`mqlab broker` on a free port (or two, with TLS), with its data in a folder."""

    def __init__(self, *options: object, listen: tuple[str, ...] = ("tcp:127.0.0.1:0",), port: int = 0) -> None:
        if port:
            listen = (f"tcp:127.0.0.1:{port}",)
        addresses = [f"--listen={address}" for address in listen]
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "mqlab", "broker", *addresses, *map(str, options)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._popen.stdout is not None
        self.ports = [int(self._popen.stdout.readline().rsplit(":", 1)[1]) for _ in listen]

    @property
    def port(self) -> int:
        return self.ports[0]

    @property
    def pid(self) -> int:
        return self._popen.pid

    def kill(self) -> None:
        self._popen.kill()
        self._popen.communicate()

    def stop(self) -> str:
        """Returns what it wrote to its log."""
        self._popen.terminate()
        return self._popen.communicate(timeout=SECONDS)[1]


@contextmanager
def broker(*options: object, listen: tuple[str, ...] = ("tcp:127.0.0.1:0",), port: int = 0) -> Iterator[Process]:
    process = Process(*options, listen=listen, port=port)
    try:
        yield process
    finally:
        process.kill()


class Listener(stomp.ConnectionListener):  # type: ignore[misc] # stomp.py has no types
    def __init__(self) -> None:
        self.messages: queue.Queue[StompPyFrame] = queue.Queue()
        self.receipts: queue.Queue[str] = queue.Queue()
        self.errors: queue.Queue[StompPyFrame] = queue.Queue()
        self.failed = threading.Event()
        self.beats: queue.Queue[None] = queue.Queue()
        self.connected: dict[str, str] = {}
        self.gone = threading.Event()

    def on_connected(self, frame: StompPyFrame) -> None:
        self.connected = frame.headers

    def on_message(self, frame: StompPyFrame) -> None:
        self.messages.put(frame)

    def on_receipt(self, frame: StompPyFrame) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame: StompPyFrame) -> None:
        self.failed.set()
        self.errors.put(frame)

    def on_heartbeat(self) -> None:
        self.beats.put(None)

    def on_disconnected(self) -> None:
        self.gone.set()


class Client:
    """A connection of stomp.py, whose threads have ended when it is closed."""

    usual = "1.2"

    def __init__(
        self, port: int, version: str = "", *, login: str | None = None, passcode: str | None = None,
        ca: Path | None = None, heartbeats: tuple[int, int] | None = None, text: bool = False,
        headers: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        where = ("127.0.0.1", port)
        more: dict[str, object] = (
            {} if heartbeats is None else {"heartbeats": heartbeats, "heart_beat_receive_scale": 3}
        )
        self.c = CLASSES[version or self.usual]([where], auto_decode=text, reconnect_attempts_max=1, **more)
        if ca is not None:
            self.c.set_ssl([where], ca_certs=str(ca), ssl_version=ssl.PROTOCOL_TLS_CLIENT)
        self.heard = Listener()
        self.c.set_listener("test", self.heard)
        self._number = 0
        try:
            self.c.connect(login, passcode, wait=True, headers=headers or {})
        except BaseException:
            self._join()
            raise

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        # After an ERROR the broker closes the socket, at any moment while stomp.py looks at it or writes to it.
        with suppress(*_CLOSED):
            if not self.heard.failed.is_set():
                self.c.disconnect()
        self._join()

    def cut(self) -> None:
        """As if its process had died."""
        ours = self.c.transport.socket
        getattr(ours, "sock", ours).shutdown(socket.SHUT_RDWR)
        self._join()

    def _join(self) -> None:
        beating = getattr(self.c, "heartbeat_thread", None)
        for thread in (self.c.transport.io_thread, beating):
            if thread is not None:
                thread.join(SECONDS)
                assert not thread.is_alive()

    def message(self) -> StompPyFrame:
        return self._next(self.heard.messages)

    def bodies(self, count: int) -> list[bytes]:
        return [self.message().body for _ in range(count)]

    def nothing(self) -> bool:
        """Whether no message has come when all that was said up to now is done."""
        self.sync()
        return self.heard.messages.empty()

    def error(self) -> str:
        """What the broker says before it ends the connection."""
        return str(self.error_headers()["message"])

    def error_headers(self) -> dict[str, str]:
        frame = self.heard.errors.get(timeout=SECONDS)
        assert self.heard.gone.wait(SECONDS)
        return dict(frame.headers)

    def wanted(self) -> str:
        self._number += 1
        return f"receipt-{self._number}"

    def receipt(self, expected: str) -> None:
        """Raises EOFError if the broker is gone instead."""
        assert self._next(self.heard.receipts) == expected

    def _next(self, heard: "queue.Queue[Heard]") -> Heard:
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                return heard.get(timeout=0.05)
            except queue.Empty:
                if self.heard.gone.is_set() and heard.empty():
                    raise EOFError from None
                assert time.monotonic() < deadline

    def send(self, destination: str, body: bytes | str, **headers: str) -> None:
        """Returns when the broker has it."""
        wanted = self.wanted()
        self.c.send(destination, body, headers={"receipt": wanted, **headers})
        self.receipt(wanted)

    def subscribe(self, destination: str, name: str = "s", ack: str = "auto", **headers: str) -> None:
        wanted = self.wanted()
        self.c.subscribe(destination, name, ack, headers={"receipt": wanted, **headers})
        self.receipt(wanted)

    def unsubscribe(self, name: str = "s", **headers: str) -> None:
        wanted = self.wanted()
        self.c.unsubscribe(id=name, headers={"receipt": wanted, **headers})
        self.receipt(wanted)

    def ack(self, message: StompPyFrame, transaction: str | None = None) -> None:
        self._settle(self.c.ack, message, transaction)

    def nack(self, message: StompPyFrame, transaction: str | None = None) -> None:
        self._settle(self.c.nack, message, transaction)

    def _settle(self, how: Callable[..., None], message: StompPyFrame, transaction: str | None) -> None:
        headers, wanted = message.headers, self.wanted()
        if self.c.version == "1.1":
            how(headers["message-id"], headers["subscription"], transaction, wanted)
        else:
            how(headers["ack" if self.c.version == "1.2" else "message-id"], transaction, wanted)
        self.receipt(wanted)

    def sync(self) -> None:
        """All that was said is done, and what it made the broker send has come."""
        wanted = self.wanted()
        self.c.begin(wanted, headers={"receipt": wanted})
        self.receipt(wanted)
        self.c.abort(wanted)


class Raw:
    """Bytes out, frames in."""

    def __init__(self, port: int, version: str = "1.2", *, greet: bool = True, receive_buffer: int = 0) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(SECONDS)
        self.socket.connect(("127.0.0.1", port))
        self._splitter = StompFrameDecoder(Limits(body=64 * 1024 * 1024), version)
        self._frames: list[StompFrame] = []
        if greet:
            self.write("CONNECT", **{"accept-version": version, "host": "here"})
            assert self.read().command == "CONNECTED"

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def write(self, command: str, body: bytes = b"", /, **headers: str) -> None:
        """Headers as they are written; the length of the body is said."""
        self.bytes(frame(command, body, **headers))

    def bytes(self, data: bytes) -> None:
        """The broker may have closed the connection before it read all of it: `read` and `is_ended` tell."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def read(self) -> StompFrame:
        """Raises EOFError when the broker has ended the connection."""
        while not self._frames:
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                raise EOFError
            self._frames += self._splitter.feed(data)
        return self._frames.pop(0)

    def is_ended(self) -> StompFrame:
        """The broker says why, and then nothing more."""
        while (error := self.read()).command != "ERROR":
            pass
        try:
            while True:
                self.read()
        except EOFError:
            return error


def frame(command: str, body: bytes = b"", /, **headers: str) -> bytes:
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    length = f"content-length:{len(body)}\n" if body else ""
    return f"{command}\n{lines}{length}\n".encode() + body + b"\0"
