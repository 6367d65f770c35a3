"""The WebSocket handshake: the HTTP request that upgrades a connection, and its response."""

from collections.abc import Collection, Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

import h11
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, RejectConnection, Request
from wsproto.utilities import RemoteProtocolError

from mqlab.broker import limits
from mqlab.broker.server.http.responses import HttpResponse, encode_response, error_response, is_fixed
from mqlab.errors import MqlabError

# The preferred one first.
MQTT: Final = "mqtt"
_SUBPROTOCOLS: Final = ("v12.stomp", "v11.stomp", "v10.stomp", MQTT)
_UPGRADE: Final = (("Upgrade", "websocket"), ("Connection", "Upgrade"))
_NO_UPGRADE: Final = "this is a message broker: it accepts WebSocket connections, and has no pages"


class HandshakeRefusedError(MqlabError):
    """The broker refuses the request with this response."""

    def __init__(self, status: HTTPStatus, message: str, *headers: tuple[str, str]) -> None:
        super().__init__(message)
        self.response: HttpResponse = error_response(status, message, *headers)


class AcceptedHandshake(NamedTuple):
    connection: WSConnection
    response: bytes
    # The bytes after the request.
    rest: bytes
    # None: the client offered none.
    subprotocol: str | None


class WebSocketHandshake:
    """The handshake of one client. `allowed`: origins of web pages that may connect."""

    def __init__(self, allowed: Collection[str], *, tls: bool) -> None:
        self._allowed = allowed
        self._tls = tls
        self._room = limits.HTTP_HEAD
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.HTTP_HEAD)

    def received(self, data: bytes) -> AcceptedHandshake | None:
        """Return None if the request is not complete. Raises HandshakeRefusedError."""
        head, rest = data[: self._room], data[self._room :]
        self._room -= len(head)
        try:
            self._http.receive_data(head)
            request = self._http.next_event()
            has_no_body = isinstance(request, h11.Request) and isinstance(self._http.next_event(), h11.EndOfMessage)
        except h11.RemoteProtocolError:
            raise HandshakeRefusedError(HTTPStatus.BAD_REQUEST, "this is not an HTTP request") from None
        if not isinstance(request, h11.Request):
            if self._room:
                return None
            too_long = f"a request of more than {limits.HTTP_HEAD} bytes"
            raise HandshakeRefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, too_long)
        self._check(request, has_no_body=has_no_body)
        return self._open(request, rest)

    def encode(self, response: HttpResponse) -> bytes:
        """The bytes of a response that ends the handshake."""
        return encode_response(self._http, response)

    def _check(self, request: h11.Request, *, has_no_body: bool) -> None:
        headers = [(name, value.decode("latin-1")) for name, value in request.headers]
        if not any(name == b"upgrade" and value.lower() == "websocket" for name, value in headers):
            raise HandshakeRefusedError(HTTPStatus.UPGRADE_REQUIRED, _NO_UPGRADE, *_UPGRADE)
        if request.method != b"GET" or request.http_version != b"1.1" or not has_no_body:
            raise HandshakeRefusedError(
                HTTPStatus.BAD_REQUEST, "WebSocket begins with a GET of HTTP/1.1 without a body"
            )
        host = next(value for name, value in headers if name == b"host")
        for origin in [value for name, value in headers if name == b"origin"]:
            if not allows(origin, host, self._allowed, tls=self._tls):
                refused = f"web pages of {origin[:80]!a} may not connect; web_origins lists the origins that may"
                raise HandshakeRefusedError(HTTPStatus.FORBIDDEN, refused)

    def _open(self, request: h11.Request, rest: bytes) -> AcceptedHandshake:
        connection = WSConnection(ConnectionType.SERVER)
        try:
            connection.initiate_upgrade_connection(list(request.headers), request.target)
            [event] = connection.events()
        except RemoteProtocolError as error:
            hint = error.event_hint
            assert isinstance(hint, RejectConnection)
            headers = [(name.decode(), value.decode()) for name, value in hint.headers]
            raise HandshakeRefusedError(HTTPStatus(hint.status_code), str(error), *headers) from None
        except UnicodeError:
            raise HandshakeRefusedError(HTTPStatus.BAD_REQUEST, "a header that must be ASCII is not") from None
        assert isinstance(event, Request)
        # No extensions: a compressed message could have any size.
        subprotocol = _choose_subprotocol(event.subprotocols)
        response = connection.send(AcceptConnection(subprotocol=subprotocol))
        return AcceptedHandshake(connection, response, self._http.trailing_data[0] + rest, subprotocol)


def _choose_subprotocol(offered: Sequence[str]) -> str | None:
    """A client need not offer any, since CONNECT names the version, too. Raises HandshakeRefusedError."""
    if not offered:
        return None
    for subprotocol in _SUBPROTOCOLS:
        if subprotocol in offered:
            return subprotocol
    raise HandshakeRefusedError(HTTPStatus.BAD_REQUEST, f"the subprotocol must be one of {', '.join(_SUBPROTOCOLS)}")


def allows(origin: str, host: str, allowed: Collection[str], *, tls: bool) -> bool:
    """Whether a web page may connect: a browser lets any page connect to this machine, and sends the page's origin.

    `host` is the Host header of the client; `tls`: a certificate has proven it. Some clients that are not browsers send
    the broker itself as origin. The broker serves no pages, so that is safe, unless an attacker has pointed a name to
    this machine after a page was loaded (DNS rebinding). That is impossible with an IP address, and with a name that a
    certificate proves.
    """
    origin, host = origin.lower(), host.lower()
    if origin in allowed:
        return True
    return origin in (f"http://{host}", f"https://{host}") and (tls or is_fixed(host))
