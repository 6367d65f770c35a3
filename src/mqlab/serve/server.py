"""The HTTP server of the page: loopback only, a token for what changes anything, a strict content security policy."""

import hmac
import json
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from mqlab.json_values import JsonObject
from mqlab.serve.runs import RunList, live_process, live_state
from mqlab.study import built_in_studies

HOST: Final = "127.0.0.1"
TOKEN_HEADER: Final = "X-Mqlab-Token"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_TYPES: Final = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml", ".md": "text/plain; charset=utf-8",
}  # fmt: skip
# How often a live log is looked at, and how often a stream without news says that it lives.
_POLL_SECONDS: Final = 0.25
_KEEPALIVE_SECONDS: Final = 10.0
_MOST_BODY: Final = 10_000
_SCALES: Final = ("quick", "standard", "full")


class PageServer(ThreadingHTTPServer):
    """Serves until it is shut down. The address with its token is `url`."""

    daemon_threads = True

    def __init__(self, runs: Path, port: int = 0) -> None:
        super().__init__((HOST, port), _PageHandler)
        self.runs = RunList(runs)
        self.token = secrets.token_urlsafe(24)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}/#token={self.token}"

    def start_run(self, study: str, scale: str) -> None:
        """Start a lab as a process of its own, which goes on if this server ends."""
        command = [sys.executable, "-m", "mqlab", "run", study, "--scale", scale, "--runs", str(self.runs.parent)]
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip


class _PageHandler(BaseHTTPRequestHandler):
    server: PageServer
    server_version = "mqlab"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Nothing: the page asks often."""

    def do_GET(self) -> None:
        if self._is_local():
            self._route(self._get)

    def do_POST(self) -> None:
        if not self._is_local():
            return
        given = self.headers.get(TOKEN_HEADER, "")
        if not hmac.compare_digest(given.encode(), self.server.token.encode()):
            self._error(HTTPStatus.FORBIDDEN, "this needs the token of the address that mqlab serve printed")
            return
        self._route(self._post)

    def _is_local(self) -> bool:
        """A page of another site may not reach this server by a name of its own for this address."""
        host = self.headers.get("Host", "").rpartition(":")[0]
        if host in (HOST, "localhost"):
            return True
        self._error(HTTPStatus.MISDIRECTED_REQUEST, f"use http://{HOST}:{self.server.server_port}/")
        return False

    def _route(self, answer: Callable[[list[str]], None]) -> None:
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        try:
            answer(parts)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _get(self, parts: list[str]) -> None:
        match parts:
            case [""]:
                self._static("page.html")
            case ["static", name]:
                self._static(name)
            case ["api", "runs"]:
                self._json([asdict(run) for run in self.server.runs.summaries()])
            case ["api", "studies"]:
                self._json({"studies": built_in_studies(), "scales": _SCALES})
            case ["api", "runs", name, "live"]:
                self._stream(name)
            case ["runs", name, "report", *file]:
                self._report(name, "/".join(file) or "index.html")
            case ["metrics"]:
                self._send(prometheus(self.server.runs), "text/plain; version=0.0.4; charset=utf-8")
            case _:
                self._error(HTTPStatus.NOT_FOUND, "there is no such page")

    def _post(self, parts: list[str]) -> None:
        match parts:
            case ["api", "runs", name, "stop"]:
                folder = self.server.runs.folder(name)
                process = live_process(folder.path) if folder else None
                if process is None:
                    self._error(HTTPStatus.CONFLICT, f"{name} is not running")
                    return
                process.send_signal(signal.SIGINT)
                self._json({"stopping": name})
            case ["api", "start"]:
                self._start(self._body())
            case _:
                self._error(HTTPStatus.NOT_FOUND, "there is no such action")

    def _start(self, asked: JsonObject) -> None:
        study, scale = asked.get("study"), asked.get("scale", "quick")
        if study not in built_in_studies() or scale not in _SCALES:
            self._error(HTTPStatus.BAD_REQUEST, "name a study of `mqlab studies` and a scale: quick, standard or full")
            return
        self.server.start_run(str(study), str(scale))
        self._json({"started": study})

    def _body(self) -> JsonObject:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _MOST_BODY:
            return {}
        try:
            body = json.loads(self.rfile.read(int(length)))
        except ValueError:
            return {}
        return body if isinstance(body, dict) else {}

    def _static(self, name: str) -> None:
        file = files("mqlab.serve") / "templates" / name
        if name not in ("page.html", "page.js", "page.css"):
            self._error(HTTPStatus.NOT_FOUND, "there is no such file")
            return
        self._send(file.read_bytes(), _TYPES[Path(name).suffix])

    def _report(self, name: str, file: str) -> None:
        folder = self.server.runs.folder(name)
        path = (folder.report / file).resolve() if folder else None
        if folder is None or path is None or not path.is_relative_to(folder.report.resolve()) or not path.is_file():
            self._error(HTTPStatus.NOT_FOUND, "there is no such report")
            return
        # A report has its own policy inside: it allows its scripts by their hashes, and no request.
        self._send(
            path.read_bytes(), _TYPES.get(path.suffix, "application/octet-stream"), policy="frame-ancestors 'none'"
        )

    def _stream(self, name: str) -> None:
        """Server-sent events: the state of a run whenever it changes, until the lab has ended."""
        folder = self.server.runs.folder(name)
        if folder is None:
            self._error(HTTPStatus.NOT_FOUND, "there is no such run")
            return
        self.send_response(HTTPStatus.OK)
        self._headers("text/event-stream; charset=utf-8", _POLICY)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        last, said = "", 0.0
        while True:
            state = live_state(folder.path)
            text = json.dumps(state)
            if text != last:
                self.wfile.write(f"data: {text}\n\n".encode())
                last, said = text, time.monotonic()
            elif time.monotonic() - said > _KEEPALIVE_SECONDS:
                self.wfile.write(b": still here\n\n")
                said = time.monotonic()
            if not state["live"]:
                return
            time.sleep(_POLL_SECONDS)

    def _json(self, document: object) -> None:
        self._send(json.dumps(document).encode(), "application/json")

    def _error(self, status: HTTPStatus, text: str) -> None:
        self._send(json.dumps({"error": text}).encode(), "application/json", status)

    def _send(self, body: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK, policy: str = _POLICY) -> None:
        self.send_response(status)
        self._headers(kind, policy)
        self.send_header("Content-Length", str(len(body)))
        if status != HTTPStatus.OK:
            # The rest of a refused request is not read.
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(body)

    def _headers(self, kind: str, policy: str) -> None:
        for name, value in (
            ("Content-Type", kind), ("Content-Security-Policy", policy), ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"), ("Cache-Control", "no-store"),
        ):  # fmt: skip
            self.send_header(name, value)


def prometheus(runs: RunList) -> bytes:
    """The metrics of the runs in progress, in the Prometheus format."""
    registry = CollectorRegistry()
    gauges = {
        key: Gauge(f"mqlab_{key}", text, ["run", "study"], registry=registry)
        for key, text in (
            ("runs_done", "finished runs"), ("runs_expected", "runs up to the next look"),
            ("rate", "rate of the last run, 1/s"),
            ("seconds_left", "seconds until the runs end"),
        )
    }  # fmt: skip
    for summary in (run for run in runs.summaries() if run.is_live):
        state = live_state(runs.parent / summary.id)
        for key, gauge in gauges.items():
            if isinstance(value := state.get(key), int | float):
                gauge.labels(summary.id, summary.study).set(value)
    return bytes(generate_latest(registry))
