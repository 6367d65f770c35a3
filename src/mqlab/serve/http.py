"""The parts that all pages of mqlab share: loopback only, a token for changes, a strict content security policy."""

import hmac
import json
import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from mqlab.json_values import JsonObject

HOST: Final = "127.0.0.1"
TOKEN_HEADER: Final = "X-Mqlab-Token"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
TYPES: Final = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml", ".md": "text/plain; charset=utf-8",
}  # fmt: skip
_MOST_BODY: Final = 10_000


class LoopbackServer(ThreadingHTTPServer):
    """Serves until it is shut down. The address with its token is `url`."""

    daemon_threads = True

    def __init__(self, handler: type["LoopbackHandler"], port: int = 0) -> None:
        super().__init__((HOST, port), handler)
        self.token = secrets.token_urlsafe(24)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}/#token={self.token}"


class LoopbackHandler(BaseHTTPRequestHandler):
    server: LoopbackServer
    server_version = "mqlab"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 30
    _body = b""
    # The page at /, and the files in `templates` that it needs.
    static_files: tuple[str, ...] = ()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Nothing: the page asks often."""

    def do_GET(self) -> None:
        if self._is_local():
            self._route(self.get)

    def do_POST(self) -> None:
        if not self._is_local():
            return
        given = self.headers.get(TOKEN_HEADER, "")
        if not hmac.compare_digest(given.encode(), self.server.token.encode()):
            self.send_problem(HTTPStatus.FORBIDDEN, "this needs the token of the address that mqlab printed")
            return
        # The rest of a body that is not read would begin the next request of the connection.
        self._body = self._read_body()
        self._route(self.post)

    def get(self, parts: list[str]) -> None:
        """Answer a request for the parts of a path. A page of its own answers others first."""
        match parts:
            case [""]:
                self.send_static(self.static_files[0])
            case ["static", name]:
                self.send_static(name)
            case _:
                self.send_problem(HTTPStatus.NOT_FOUND, "there is no such page")

    def post(self, parts: list[str]) -> None:  # noqa: ARG002 - a page without actions has none
        self.send_problem(HTTPStatus.NOT_FOUND, "there is no such action")

    def _is_local(self) -> bool:
        """A page of another site may not reach this server by a name of its own for this address."""
        host = self.headers.get("Host", "").rpartition(":")[0]
        if host in (HOST, "localhost"):
            return True
        self.send_problem(HTTPStatus.MISDIRECTED_REQUEST, f"use http://{HOST}:{self.server.server_port}/")
        return False

    def _route(self, answer: Callable[[list[str]], None]) -> None:
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        try:
            answer(parts)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.path).query))

    def body(self) -> JsonObject:
        """The JSON object of a POST request; {} if it has none."""
        try:
            body = json.loads(self._body)
        except ValueError:
            return {}
        return body if isinstance(body, dict) else {}

    def _read_body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _MOST_BODY:
            self.close_connection = True
            return b""
        return self.rfile.read(int(length))

    def send_static(self, name: str) -> None:
        if name not in self.static_files:
            self.send_problem(HTTPStatus.NOT_FOUND, "there is no such file")
            return
        file = files("mqlab.serve") / "templates" / name
        self.send_content(file.read_bytes(), TYPES[Path(name).suffix])

    def send_json(self, document: object) -> None:
        self.send_content(json.dumps(document).encode(), "application/json")

    def send_problem(self, status: HTTPStatus, text: str) -> None:
        self.send_content(json.dumps({"error": text}).encode(), "application/json", status)

    def send_content(self, body: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK, policy: str = POLICY) -> None:
        self.send_response(status)
        self.send_policy(kind, policy)
        self.send_header("Content-Length", str(len(body)))
        if status != HTTPStatus.OK:
            # The rest of a refused request is not read.
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(body)

    def send_policy(self, kind: str, policy: str = POLICY) -> None:
        for name, value in (
            ("Content-Type", kind), ("Content-Security-Policy", policy), ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"), ("Cache-Control", "no-store"),
        ):  # fmt: skip
            self.send_header(name, value)
