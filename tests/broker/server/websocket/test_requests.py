"""Requests over HTTP at an address of the broker: which become connections of WebSocket, and what others are told."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.server.raw_client import client, in_loop, local
from mqlab.broker import limits
from mqlab.broker.server.startup import running
from mqlab.broker.server.websocket.handshake import HandshakeRefusedError, WebSocketHandshake, allows

from .websocket_client import UPGRADE, Web, asked, request

# What a browser puts into Sec-WebSocket-Accept for KEY, from the standard.
ACCEPT = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def opened(data: bytes, *allowed: str, tls: bool = False) -> bytes:
    found = WebSocketHandshake(allowed, tls=tls).received(data)
    assert found is not None
    return found.response


def refused(data: bytes, *allowed: str) -> int:
    with pytest.raises(HandshakeRefusedError) as caught:
        WebSocketHandshake(allowed, tls=False).received(data)
    return int(caught.value.response.status)


@pytest.mark.parametrize("target", ["/", "/ws", "/stomp/websocket?x=y", "*"])
def test_any_path_will_do(target: str) -> None:
    response = opened(request(target))
    assert response.startswith(b"HTTP/1.1 101 ")
    assert ACCEPT in response
    assert b"xtensions" not in response


def test_nothing_is_compressed() -> None:
    """A few bytes could be any number of bytes."""
    assert b"xtensions" not in opened(request(Sec_WebSocket_Extensions="permessage-deflate; client_max_window_bits"))


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ("v10.stomp", b"v10.stomp"), ("v10.stomp, v11.stomp", b"v11.stomp"), ("v12.stomp,v11.stomp", b"v12.stomp"),
        ("mqtt, v10.stomp,v12.stomp", b"v12.stomp"), (None, None),
    ],
)  # fmt: skip
def test_the_best_subprotocol_is_chosen(offered: str | None, chosen: bytes | None) -> None:
    response = opened(request(Sec_WebSocket_Protocol=offered)).lower()
    assert (b"sec-websocket-protocol" in response) is (chosen is not None)
    assert chosen is None or b"sec-websocket-protocol: %b\r\n" % chosen in response


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request(Upgrade=None), 426),
        (request(Upgrade="h2c"), 426),
        (b"GET / HTTP/1.0\r\n\r\n", 426),
        (request(Sec_WebSocket_Version="8"), 426),
        (request(Sec_WebSocket_Version=None), 400),
        (request(Sec_WebSocket_Key=None), 400),
        (request(Connection="keep-alive"), 400),
        (request(Connection=None), 400),
        (request(Sec_WebSocket_Protocol="amqp"), 400),
        (request(Sec_WebSocket_Protocol="\xe4"), 400),
        (request(Host=None), 400),
        (request(Host="\xe4"), 400),
        (request(Content_Length="3") + b"abc", 400),
        (request(Content_Length="3"), 400),
        (request(Transfer_Encoding="chunked"), 400),
        (request(method="GETS"), 400),
        (request().replace(b"HTTP/1.1", b"HTTP/1.0"), 400),
        (b"GET\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 426),
        (b"GET /\0 HTTP/1.1\r\n\r\n", 400),
        (request(Origin="https://example.org"), 403),
    ],
)
def test_what_is_refused(data: bytes, status: int) -> None:
    assert refused(data) == status


class TestOrigins:
    """Whose web page it is that wants to connect."""

    @pytest.mark.parametrize(
        ("origin", "host", "tls"),
        [
            # As websocket-client, and so stomp.py, has it.
            ("http://127.0.0.1:7766", "127.0.0.1:7766", False),
            ("https://127.0.0.1:7766", "127.0.0.1:7766", True),
            ("http://localhost:7766", "LOCALHOST:7766", False),
            ("http://[::1]:7766", "[::1]:7766", False),
            ("http://192.0.2.7:7766", "192.0.2.7:7766", False),
            ("https://broker.example.org", "broker.example.org", True),
        ],
    )
    def test_the_broker_itself_is_nobody_s_page(self, origin: str, host: str, tls: bool) -> None:
        assert allows(origin, host, (), tls=tls)

    @pytest.mark.parametrize(
        ("origin", "host"),
        [
            ("http://example.org", "127.0.0.1:7766"),
            ("http://127.0.0.1:8000", "127.0.0.1:7766"),
            ("http://127.0.0.1", "127.0.0.1:7766"),
            ("http://localhost:7766", "127.0.0.1:7766"),
            # Its name was pointed here after the page was loaded.
            ("http://example.org:7766", "example.org:7766"),
            ("http://127.0.0.1.example.org:7766", "127.0.0.1.example.org:7766"),
            ("http://localhost.example.org:7766", "localhost.example.org:7766"),
            ("null", "127.0.0.1:7766"),
            ("", ""),
            ("file://", "127.0.0.1:7766"),
            ("http://", ""),
            ("ftp://127.0.0.1:7766", "127.0.0.1:7766"),
            ("http://127.0.0.1:7766/", "127.0.0.1:7766"),
        ],
    )
    def test_somebody_else_s_page_is_not_let_in(self, origin: str, host: str) -> None:
        assert not allows(origin, host, (), tls=False)
        assert not allows(origin, host, ("https://other.example.org",), tls=False)

    def test_over_tls_the_page_must_still_be_of_that_host(self) -> None:
        assert not allows("https://example.org", "broker.example.org", (), tls=True)

    def test_those_that_were_allowed_are(self) -> None:
        allowed = ("https://shop.example.org", "http://localhost:8000")
        for origin in (*allowed, "HTTPS://Shop.example.org"):
            assert b" 101 " in opened(request(Origin=origin), *allowed)
        for origin in ("http://shop.example.org", "https://shop.example.org:444", "https://x.shop.example.org"):
            assert refused(request(Origin=origin), *allowed) == 403

    def test_each_of_several_must_be_allowed(self) -> None:
        both = request(Origin="https://a.org\r\nOrigin: https://b.org")
        assert refused(both, "https://a.org") == refused(both, "https://b.org") == 403
        assert opened(both, "https://a.org", "https://b.org")

    @in_loop
    async def test_the_broker_is_told_by_its_settings(self) -> None:
        async with running(local(web_origins=("https://a.org",))) as (_, (address,)):
            reply = await asked(address, request(Origin="https://b.org"))
            assert reply.status == 403
            assert b"'https://b.org'" in reply.body
            assert b"web_origins" in reply.body
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(request(Origin="https://a.org"))
            assert (await reader.readline()).startswith(b"HTTP/1.1 101 ")
            writer.close()


@in_loop
async def test_who_is_refused_is_told_so_and_is_gone() -> None:
    async with running(local()) as (broker, (address,)):
        reply = await asked(address, b"GE", b"T /status HTTP/1.1\r\nHost: x\r\n", b"User-Agent: browser\r\n\r\n")
        assert (reply.status, reply.headers["upgrade"]) == (426, "websocket")
        assert reply.headers["content-type"].startswith("text/plain")
        assert b"message broker" in reply.body
        old = await asked(address, request(Sec_WebSocket_Version="8"))
        assert (old.status, old.headers["sec-websocket-version"]) == (426, "13")
        while broker.connections:
            await asyncio.sleep(0.01)


def test_the_log_has_one_line_for_each(caplog: pytest.LogCaptureFixture) -> None:
    @in_loop
    async def ask() -> None:
        async with running(local()) as (_, (address,)):
            await asked(address, request(Origin="http://x\x85\tforged line"))

    ask()
    [record] = caplog.records
    assert "'http://x\\x85\\tforged line'" in record.getMessage()
    assert record.getMessage().isprintable()


@pytest.mark.parametrize("more", [-1, 0, 1])
@in_loop
async def test_the_length_of_a_request(more: int) -> None:
    padding = limits.HTTP_HEAD + more - len(request(Cookie=""))
    data = request(Cookie="x" * padding)
    assert len(data) == limits.HTTP_HEAD + more
    async with running(local()) as (_, (address,)):
        for parts in ((data,), (data[:9000], data[9000:-1], data[-1:])):
            if more > 0:
                reply = await asked(address, *parts, b"and more of it" * 1000)
                assert (reply.status, str(limits.HTTP_HEAD).encode() in reply.body) == (431, True)
                continue
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.writelines(parts)
            assert (await reader.readline()).startswith(b"HTTP/1.1 101 ")
            writer.close()


@pytest.mark.parametrize("said", [b"GE", request()[:-2], request()[:60]])
@in_loop
async def test_a_request_has_little_time(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HELLO_SECONDS", 0.1)
    async with running(local()) as (broker, (address,)):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(said)
        answer = await reader.read()
        assert b"not logged in within 0.1 seconds" in answer
        assert answer.startswith(b"HTTP/1.1 408 ") is (said[:3] == b"GET")
        writer.close()
        while broker.connections:
            await asyncio.sleep(0.01)


def answer(data: bytes) -> bytes:
    """To any bytes; nothing, if more must come."""
    handshake = WebSocketHandshake((), tls=False)
    try:
        found = handshake.received(data)
    except HandshakeRefusedError as error:
        return handshake.encode(error.response)
    return b"" if found is None else found.response


ANSWERS = (b"HTTP/1.1 101 ", b"HTTP/1.1 400 ", b"HTTP/1.1 403 ", b"HTTP/1.1 426 ")


@given(st.binary(max_size=200), st.integers(0, 250), st.integers(0, 20))
def test_whatever_a_request_is_it_has_an_answer(noise: bytes, at: int, over: int) -> None:
    whole = request(Sec_WebSocket_Protocol="v12.stomp", Origin="http://127.0.0.1:7766")
    said = whole[:at] + noise + whole[at + over :]
    assert answer(said).startswith(ANSWERS if b"\n\r\n" in said or b"\n\n" in said else (b"", *ANSWERS))


@given(st.dictionaries(st.sampled_from([*UPGRADE, "Origin", "Sec-WebSocket-Protocol"]), st.text(max_size=20)))
def test_whatever_the_headers_are(values: dict[str, str]) -> None:
    lines = b"".join(b"%b: %b\r\n" % (name.encode(), value.encode()) for name, value in {**UPGRADE, **values}.items())
    assert answer(b"GET / HTTP/1.1\r\n" + lines + b"\r\n").startswith(ANSWERS)


@in_loop
async def test_what_follows_the_request_at_once_is_heard() -> None:
    async with running(local()) as (_, (address,)):
        web = Web(*await asyncio.open_connection(address.host, address.port))
        # The bytes of a masked text with one line end: a heart-beat, before it knows whether it may.
        web.writer.write(request() + b"\x81\x81\0\0\0\0\n" + b"\x89\x81\0\0\0\0!")
        await web.reader.readuntil(b"\r\n\r\n")
        assert await web.reader.readexactly(3) == b"\x8a\x01!"


@in_loop
async def test_other_protocols_go_on_beside_it() -> None:
    async with running(local()) as (_, (address,)):
        web, native = await Web.connect(address), await client(address)
        consumer = await (await native.session()).consumer("queue:q")
        web.say_frame("SEND", b"x", destination="/queue/q")
        assert (await consumer.receive()).body == b"x"
