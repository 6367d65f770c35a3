"""HTTP responses, and checks of the Host header."""

import ipaddress
from http import HTTPStatus
from typing import NamedTuple

import h11


class HttpResponse(NamedTuple):
    content: str
    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    # Beside the headers that every response has.
    headers: tuple[tuple[str, str], ...] = ()


def error_response(status: HTTPStatus, message: str, *headers: tuple[str, str]) -> HttpResponse:
    return HttpResponse("text/plain; charset=utf-8", f"{message}\n".encode(), status, headers)


def encode_response(connection: h11.Connection, response: HttpResponse, method: bytes = b"GET") -> bytes:
    """The bytes of a response, after which the connection is closed."""
    headers = [("Content-Type", response.content), ("Content-Length", str(len(response.body))), ("Connection", "close")]
    head = h11.Response(
        status_code=response.status, headers=[*headers, *response.headers], reason=response.status.phrase
    )
    body = [] if method == b"HEAD" else [h11.Data(data=response.body)]
    return b"".join([connection.send(event) or b"" for event in (head, *body, h11.EndOfMessage())])


def is_local(host: str) -> bool:
    """Whether the host is a loopback address. A web page could have pointed any other name to this machine."""
    name, address = _parsed(host)
    return name == "localhost" or (address is not None and address.is_loopback)


def is_fixed(host: str) -> bool:
    """Whether the host is an IP address or localhost, which no name server can point elsewhere."""
    name, address = _parsed(host)
    return name == "localhost" or address is not None


def _parsed(host: str) -> tuple[str, ipaddress.IPv4Address | ipaddress.IPv6Address | None]:
    """The name in NAME or NAME:PORT, and the IP address if the name is one."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    try:
        return name, ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return name, None
