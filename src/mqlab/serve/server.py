"""The HTTP server of the page of `mqlab serve`."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from http import HTTPStatus
from pathlib import Path
from typing import Final

from mqlab.errors import MqlabError
from mqlab.json_values import JsonObject
from mqlab.serve.comparison import comparison_answer, comparison_page
from mqlab.serve.ended_runs import EndedRuns
from mqlab.serve.history import history
from mqlab.serve.http import TYPES, LoopbackHandler, LoopbackServer
from mqlab.serve.live import LiveView, live_process
from mqlab.serve.prometheus import prometheus
from mqlab.serve.runs import RunList
from mqlab.study import built_in_studies

# How often a live log is looked at, which changes once a second and with each phase.
_POLL_SECONDS: Final = 0.5
# How often a stream without news says that it lives.
_KEEPALIVE_SECONDS: Final = 10.0
_SCALES: Final = ("quick", "standard", "full")


class PageServer(LoopbackServer):
    def __init__(self, runs: Path, port: int = 0) -> None:
        super().__init__(_PageHandler, port)
        self.runs = RunList(runs)
        self.ended = EndedRuns()

    def server_close(self) -> None:
        super().server_close()
        self.ended.close()

    def start_run(self, study: str, scale: str) -> None:
        """Start a lab as a process of its own, which goes on if this server ends."""
        command = [sys.executable, "-m", "mqlab", "run", study, "--scale", scale, "--runs", str(self.runs.parent)]
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip


class _PageHandler(LoopbackHandler):
    server: PageServer
    static_files = ("page.html", "page.js", "page.css")

    def get(self, parts: list[str]) -> None:
        match parts:
            case ["api", "runs"]:
                asked = self.query()
                number = asked.get("page", "")
                found = self.server.runs.page(int(number) if number.isdecimal() else 1, asked.get("text", ""))
                self.send_json(asdict(found))
            case ["api", "history"]:
                asked = self.query()
                self.send_json(history(self.server.runs.parent, asked.get("study", ""), asked.get("metric", "")))
            case ["api", "compare", base, new]:
                self._compare(base, new)
            case ["compare", base, new]:
                self._compare(base, new, as_page=True)
            case ["api", "studies"]:
                self.send_json({"studies": built_in_studies(), "scales": _SCALES})
            case ["api", "runs", name, "live"]:
                self._stream(name)
            case ["runs", name, "report", *file]:
                self._report(name, "/".join(file) or "index.html")
            case ["metrics"]:
                self.send_content(
                    prometheus(self.server.runs, self.server.ended), "text/plain; version=0.0.4; charset=utf-8"
                )
            case _:
                super().get(parts)

    def _compare(self, base: str, new: str, *, as_page: bool = False) -> None:
        one, other = self.server.runs.folder(base), self.server.runs.folder(new)
        if one is None or other is None:
            self.send_problem(HTTPStatus.NOT_FOUND, "there is no such run")
            return
        try:
            if as_page:
                self._page(comparison_page(one, other))
            else:
                self.send_json({"answer": comparison_answer(one, other)})
        except MqlabError as error:
            # A reader may choose any two runs: that these cannot be compared is an answer too.
            self.send_json({"reason": str(error)})

    def post(self, parts: list[str]) -> None:
        match parts:
            case ["api", "runs", name, "stop"]:
                folder = self.server.runs.folder(name)
                process = live_process(folder.path) if folder else None
                if process is None:
                    self.send_problem(HTTPStatus.CONFLICT, f"{name} is not running")
                    return
                process.send_signal(signal.SIGINT)
                self.send_json({"stopping": name})
            case ["api", "start"]:
                self._start(self.body())
            case _:
                super().post(parts)

    def _start(self, asked: JsonObject) -> None:
        study, scale = asked.get("study"), asked.get("scale", "quick")
        if study not in built_in_studies() or scale not in _SCALES:
            self.send_problem(
                HTTPStatus.BAD_REQUEST, "name a study of `mqlab studies` and a scale: quick, standard or full"
            )
            return
        self.server.start_run(str(study), str(scale))
        self.send_json({"started": study})

    def _report(self, name: str, file: str) -> None:
        folder = self.server.runs.folder(name)
        path = (folder.report / file).resolve() if folder else None
        if folder is None or path is None or not path.is_relative_to(folder.report.resolve()) or not path.is_file():
            self.send_problem(HTTPStatus.NOT_FOUND, "there is no such report")
            return
        self._page(path.read_bytes(), TYPES.get(path.suffix, "application/octet-stream"))

    def _page(self, content: str | bytes, kind: str = TYPES[".html"]) -> None:
        """Send a report. It has its own policy inside: it allows its scripts by their hashes, and no request."""
        body = content.encode() if isinstance(content, str) else content
        self.send_content(body, kind, policy="frame-ancestors 'none'")

    def _stream(self, name: str) -> None:
        """Server-sent events: the state of a run whenever it changes, until the lab has ended."""
        folder = self.server.runs.folder(name)
        if folder is None:
            self.send_problem(HTTPStatus.NOT_FOUND, "there is no such run")
            return
        self.send_response(HTTPStatus.OK)
        self.send_policy("text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        view, last, said = LiveView(folder.path, self.server.ended), "", 0.0
        while True:
            state = view.state()
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
