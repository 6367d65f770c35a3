"""What the broker answers to a request over HTTP, and which machine the request was meant for."""

import ipaddress
from http import HTTPStatus
from typing import NamedTuple

import h11


class HttpResponse(NamedTuple):
    content: str
    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    # Beyond those that every answer has.
    headers: tuple[tuple[str, str], ...] = ()


def error_response(status: HTTPStatus, message: str, *headers: tuple[str, str]) -> HttpResponse:
    return HttpResponse("text/plain; charset=utf-8", f"{message}\n".encode(), status, headers)


def encode_response(connection: h11.Connection, answer: HttpResponse, method: bytes = b"GET") -> bytes:
    """The bytes of an answer, after which the connection ends."""
    headers = [("Content-Type", answer.content), ("Content-Length", str(len(answer.body))), ("Connection", "close")]
    said = h11.Response(status_code=answer.status, headers=[*headers, *answer.headers], reason=answer.status.phrase)
    body = [] if method == b"HEAD" else [h11.Data(data=answer.body)]
    return b"".join([connection.send(event) or b"" for event in (said, *body, h11.EndOfMessage())])


def is_local(host: str) -> bool:
    """Whether the request names this machine itself. A name could be one that a page in a browser had pointed here."""
    name, address = _parsed(host)
    return name == "localhost" or (address is not None and address.is_loopback)


def is_certain(host: str) -> bool:
    """Whether nobody can point it elsewhere: it is a number, or this machine."""
    name, address = _parsed(host)
    return name == "localhost" or address is not None


def _parsed(host: str) -> tuple[str, ipaddress.IPv4Address | ipaddress.IPv6Address | None]:
    """Of NAME or NAME:PORT: the name, and the address if it is one."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    try:
        return name, ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return name, None
