"""Accepts connections: counts each, limits the time of its TLS handshake, and logs why none can be accepted."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509

from mqlab.broker import limits
from mqlab.broker.security.rights import ANYONE
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.protocol_detection import ProtocolDetection
from mqlab.broker.settings import SettingError
from mqlab.wire.address import Address
from mqlab.wire.tls import TlsError, server_context

_BACKLOG: Final = 1024
# Connections that the listener accepts in one turn of the loop.
_MOST_ACCEPTS: Final = 8
# The system lacks descriptors or memory; a pause may help.
_OUT_OF_RESOURCES: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


async def listen_at(broker: Broker, address: Address) -> "tuple[Listener, Address]":
    """Return the listener and its address; port 0 becomes the port that was free. Raises SettingError and OSError."""
    if address.path:
        await _remove_stale_socket(Path(address.path))
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.bind(address.path)
            sock.listen(_BACKLOG)
        except OSError as error:
            sock.close()
            raise OSError(error.errno, f"{address.path}: {error.strerror}") from None
        return Listener(broker, [sock]), address
    tls = _tls_context(broker) if address.tls else None
    sockets = await _bind(address)
    actual = address._replace(port=sockets[0].getsockname()[1])
    return Listener(broker, sockets, tls), actual


class Listener:
    """Listens on one address. It has several sockets if the host name has several IP addresses."""

    def __init__(self, broker: Broker, sockets: Sequence[socket.socket], tls: ssl.SSLContext | None = None) -> None:
        self._broker = broker
        self._sockets = sockets
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._pause_timer: asyncio.TimerHandle | None = None
        for sock in sockets:
            sock.setblocking(False)
        self._resume()

    def close(self) -> None:
        if self._pause_timer is not None:
            self._pause_timer.cancel()
        for sock in self._sockets:
            self._loop.remove_reader(sock)
            sock.close()

    def _resume(self) -> None:
        for sock in self._sockets:
            self._loop.add_reader(sock, self._accept, sock)

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(_MOST_ACCEPTS):
            try:
                accepted, _ = sock.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _OUT_OF_RESOURCES:
                    self._pause_accepting(error)
                # Other errors are about a connection that is closed already.
                return
            self._serve(accepted)

    def _pause_accepting(self, error: OSError) -> None:
        """The connection stays in the system's queue, so the loop would call `_accept` without end."""
        seconds = limits.ACCEPT_PAUSE
        self._broker.refusals.warn(
            "the broker cannot accept connections and tries again in %g s: %s", seconds, error.strerror
        )
        for sock in self._sockets:
            self._loop.remove_reader(sock)
        self._pause_timer = self._loop.call_later(seconds, self._resume)

    def _serve(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            keep_alive(sock)
        if self._tls is None:
            opening = self._loop.connect_accepted_socket(lambda: ProtocolDetection(self._broker), sock)
            self._broker.hold_task(asyncio.ensure_future(_opened(opening)))
            return
        peer = str(sock.getpeername()[0])
        refusal = self._broker.guard.admit(peer)
        if refusal is None:
            self._broker.hold_task(asyncio.ensure_future(TlsHandshake(self._broker, sock, peer).open(self._tls)))
        else:
            # Without a TLS session the broker cannot tell the client why.
            self._broker.refusals.warn("connection refused: %s", refusal)
            sock.close()


class TlsHandshake:
    """A connection during its TLS handshake. It counts as a connection."""

    # It has not logged in.
    client_id, user = "", ANYONE

    def __init__(self, broker: Broker, sock: socket.socket, peer: str) -> None:
        self._broker = broker
        self._socket = sock
        self._peer = peer
        broker.connections.add(self)

    async def open(self, tls: ssl.SSLContext) -> None:
        seconds = limits.HELLO_SECONDS
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _DetectionAfterTls(self._broker, self), self._socket, ssl=tls, ssl_handshake_timeout=seconds
            )
        except (OSError, EOFError) as error:
            self._broker.refusals.warn("no TLS handshake with %s: %s%s", self._peer, error, _expiry_note(self._broker))
        finally:
            self.end()

    def end(self) -> None:
        """The handshake failed, or protocol detection counts the connection from now on."""
        if self in self._broker.connections:
            self._broker.connections.discard(self)
            self._broker.guard.release(self._peer)

    def describe(self) -> None:
        """Nothing: nobody has logged in."""

    def drop(self, *, taken_over: bool = False) -> None:  # noqa: ARG002 - it has no client id yet
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            # It is closed already.
            return


class _DetectionAfterTls(ProtocolDetection):
    def __init__(self, broker: Broker, handshake: TlsHandshake) -> None:
        super().__init__(broker)
        self._handshake = handshake

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._handshake.end()
        super().connection_made(transport)


def keep_alive(sock: socket.socket) -> None:
    """TCP keepalive: the system ends connections whose client has vanished."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, limits.KEEPALIVE_IDLE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, limits.KEEPALIVE_INTERVAL)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, limits.KEEPALIVE_PROBES)


async def _opened(opening: object) -> None:
    try:
        await opening  # type: ignore[misc] # a coroutine, of any result
    except OSError:
        # The client disconnected before the transport was ready.
        return


async def _bind(address: Address) -> list[socket.socket]:
    infos = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, socket_address in dict.fromkeys(infos):
            sockets.append(socket.create_server(socket_address, family=family, backlog=_BACKLOG))
    except OSError as error:
        for sock in sockets:
            sock.close()
        raise OSError(error.errno, f"{address}: {error.strerror}") from None
    return sockets


def _tls_context(broker: Broker) -> ssl.SSLContext:
    settings = broker.settings
    assert settings.tls_certificate is not None
    assert settings.tls_key is not None
    try:
        context = server_context(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
    except TlsError as error:
        raise SettingError(str(error)) from None
    expiry = expiry_of(settings.tls_certificate)
    days_left = (expiry - datetime.now(UTC)).days if expiry is not None else limits.CERTIFICATE_DAYS
    if days_left < limits.CERTIFICATE_DAYS:
        state = "has expired" if days_left < 0 else f"expires in {days_left} days"
        broker.refusals.warn("tls_certificate: %s %s (%s)", settings.tls_certificate, state, expiry)
    return context


def _expiry_note(broker: Broker) -> str:
    """Clients end a handshake with an expired certificate, and few say why."""
    path = broker.settings.tls_certificate
    expiry = None if path is None else expiry_of(path)
    return f"; the broker's certificate expired at {expiry}" if expiry and expiry < datetime.now(UTC) else ""


async def _remove_stale_socket(path: Path) -> None:
    """Remove the socket of a broker that was killed. A running broker's socket, or any other file, stays."""
    if not path.is_socket():
        return
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except ConnectionRefusedError:
        path.unlink()
        return
    writer.close()
    raise OSError(f"{path}: another process listens on this socket already")


def expiry_of(certificate: Path) -> datetime | None:
    """The expiry of the first certificate in a PEM file; None if the file cannot be read."""
    try:
        return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
    except (OSError, ValueError):
        return None
