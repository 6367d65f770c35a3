"""Connections are counted when they come, also before their TLS handshake; what keeps them out is logged."""

import asyncio
import errno
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from mqlab.broker import limits
from mqlab.broker.server.listener import Listener, expiry_of
from mqlab.broker.server.native.connection import NativeServerConnection
from mqlab.broker.server.startup import running
from mqlab.broker.settings import Settings
from mqlab.client import aio
from mqlab.client.errors import MessagingError

from .access_users import until
from .raw_client import Raw, in_loop, local


def with_tls(
    folder: Path, not_before: datetime | None = None, not_after: datetime | None = None
) -> tuple[Settings, ssl.SSLContext]:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", not_before=not_before, not_after=not_after)
    issued.private_key_pem.write_to_path(str(folder / "key"))
    certificate = folder / "certificate"
    certificate.write_bytes(b"".join(one.bytes() for one in issued.cert_chain_pems))
    authority.cert_pem.write_to_path(str(folder / "ca"))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    settings = Settings(listen=("tls:127.0.0.1:0",), tls_certificate=certificate, tls_key=folder / "key")
    return settings, context


@in_loop
async def test_a_silent_connection_to_a_tls_address_is_counted_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "HELLO_SECONDS", 0.2)
    settings, _ = with_tls(tmp_path)
    async with running(settings) as (broker, (address,)):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        await until(lambda: len(broker.connections) == 1)
        assert await reader.read() == b""
        await until(lambda: not broker.connections)
        assert not broker.guard._connections
        writer.close()
    assert any("no TLS handshake with 127.0.0.1" in line for line in caplog.messages)


@pytest.mark.parametrize("more", [-1, 0, 1])
@in_loop
async def test_silent_connections_to_a_tls_address_are_bounded(
    more: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS", 3)
    settings, context = with_tls(tmp_path)
    async with running(settings) as (broker, (address,)):
        silent = [await asyncio.open_connection(address.host, address.port) for _ in range(2 + more)]
        await until(lambda: len(broker.connections) == 2 + more)
        opening = aio.connect(str(address), ca=tmp_path / "ca")
        if more <= 0:
            connection = await opening
            assert len(broker.connections) == 3 + more
            await connection.close()
        else:
            with pytest.raises((OSError, MessagingError)):
                await opening
        for _, writer in silent:
            writer.close()
        await until(lambda: not broker.connections)
        assert broker.guard._all == 0
        del context


@in_loop
async def test_a_broker_ends_while_handshakes_are_under_way(tmp_path: Path) -> None:
    settings, _ = with_tls(tmp_path)
    async with running(settings) as (broker, (address,)):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        await until(lambda: len(broker.connections) == 1)
    assert await reader.read() == b""
    writer.close()


@in_loop
async def test_a_failed_handshake_has_a_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    now = datetime.now(UTC)
    settings, context = with_tls(tmp_path, not_before=now - timedelta(days=9), not_after=now - timedelta(days=1))
    async with running(settings) as (broker, (address,)):
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection(address.host, address.port, ssl=context)
        await until(lambda: any("no TLS handshake" in line for line in caplog.messages))
        await until(lambda: not broker.connections)
    (line,) = [line for line in caplog.messages if "no TLS handshake" in line]
    assert "the broker's certificate expired at" in line


@pytest.mark.parametrize("more", [-1, 0, 1])
@in_loop
async def test_a_certificate_that_expires_is_logged_at_the_start(
    more: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    days = limits.CERTIFICATE_DAYS + more
    end = datetime.now(UTC) + timedelta(days=days, minutes=10)
    settings, _ = with_tls(tmp_path, not_after=end)
    async with running(settings):
        lines = [line for line in caplog.messages if "tls_certificate" in line]
    assert [f"expires in {days} days" in line for line in lines] == ([True] if more < 0 else [])


def test_the_end_of_a_certificate_is_read(tmp_path: Path) -> None:
    for end in (datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC), datetime(2077, 12, 31, 23, 59, 59, tzinfo=UTC)):
        with_tls(tmp_path, not_after=end)
        assert expiry_of(tmp_path / "certificate") == end
    (tmp_path / "certificate").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    assert expiry_of(tmp_path / "certificate") is None
    assert expiry_of(tmp_path / "nothing") is None


@in_loop
async def test_the_system_asks_whether_a_silent_client_is_there() -> None:
    async with running(local()) as (broker, (address,)):
        await Raw.connect(address)
        (connection,) = broker.connections
        assert isinstance(connection, NativeServerConnection)
        assert connection._transport is not None
        sock = connection._transport.get_extra_info("socket")
        options = {
            socket.TCP_KEEPIDLE: limits.KEEPALIVE_IDLE,
            socket.TCP_KEEPINTVL: limits.KEEPALIVE_INTERVAL,
            socket.TCP_KEEPCNT: limits.KEEPALIVE_PROBES,
            socket.TCP_NODELAY: 1,
        }
        assert {option: sock.getsockopt(socket.IPPROTO_TCP, option) for option in options} == options
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


class Short(socket.socket):
    """A system without descriptors, for so many calls."""

    lacks = 0
    lacked = 0

    def accept(self) -> tuple[socket.socket, object]:
        if Short.lacks:
            Short.lacks -= 1
            Short.lacked += 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


@in_loop
async def test_a_lack_of_descriptors_is_logged_and_ends_by_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "ACCEPT_PAUSE", 0.05)
    Short.lacks, Short.lacked = 3, 0
    async with running(local()) as (broker, _):
        sock = Short(socket.AF_INET)
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        listener = Listener(broker, [sock])
        reader, writer = await asyncio.open_connection(*sock.getsockname())
        await until(lambda: len(broker.connections) == 1)
        lines = [line for line in caplog.messages if "cannot accept connections" in line]
        assert (len(lines), Short.lacked) == (3, 3)
        assert "Too many open files" in lines[0]
        writer.close()
        assert await reader.read() == b""
        listener.close()
