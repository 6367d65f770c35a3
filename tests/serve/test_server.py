"""The page of `mqlab serve`: runs, reports, the live view; tokens, hosts and paths."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from mqlab.events.folder import RunFolder
from mqlab.events.live import ENDED, LIVE_FILE, RUNS, LiveLog, read_live
from mqlab.runner.conductor import Progress
from mqlab.serve.runs import RunList, live_process, live_state
from mqlab.serve.server import TOKEN_HEADER, PageServer

META = {"study": "mine", "title": "My own", "scale": "quick", "status": "complete", "started": "2026-01-01T12:00:00"}


def add_run(parent: Path, name: str, report: str = "") -> RunFolder:
    folder = RunFolder(parent / name)
    folder.report.mkdir(parents=True)
    folder.write_meta({**META, "systems": [{"name": "embedded"}]})
    if report:
        (folder.report / "index.html").write_text(report)
    return folder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PageServer]:
    started = PageServer(tmp_path / "runs")
    thread = threading.Thread(target=started.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield started
    started.shutdown()
    started.server_close()
    thread.join()


def ask(
    server: PageServer, path: str, method: str = "GET", body: object = None, **headers: str
) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read().decode(), response.headers
    finally:
        connection.close()


def progress(done: int, label: str, rate: float | None = None) -> dict[str, object]:
    return asdict(Progress(done, 4, label, "measure", 2.0, rate, 12.5))


class TestLiveLog:
    def test_the_rate_of_a_run_belongs_to_the_point_before(self, tmp_path: Path) -> None:
        live = LiveLog(tmp_path, "study 1 of 2: mine")
        for step in (progress(0, "A"), progress(1, "B", 10.0), progress(1, "B", 10.0), progress(2, "A", 30.0)):
            live.write(RUNS, **step)
        state = live_state(tmp_path)
        assert state["rates"] == [{"point": "A", "rate": 10.0}, {"point": "B", "rate": 30.0}]
        assert (state["title"], state["runs_done"], state["label"]) == ("study 1 of 2: mine", 2, "A")
        assert state["live"] is True
        live.write(ENDED)
        assert live_state(tmp_path)["live"] is False

    def test_an_unfinished_line_and_a_folder_without_a_log(self, tmp_path: Path) -> None:
        assert read_live(tmp_path) == []
        LiveLog(tmp_path, "mine")
        with (tmp_path / LIVE_FILE).open("a") as file:
            file.write('{"kind":"ru')
        assert [line["kind"] for line in read_live(tmp_path)] == ["started"]

    def test_a_process_that_has_ended_is_not_live(self, tmp_path: Path) -> None:
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        LiveLog(tmp_path, "mine")
        file = tmp_path / LIVE_FILE
        file.write_text(file.read_text().replace(f'"pid":{os.getpid()}', f'"pid":{ended.pid}'))
        assert live_process(tmp_path) is None

    def test_a_log_that_cannot_be_written_disturbs_nothing(self, tmp_path: Path) -> None:
        LiveLog(tmp_path / "missing", "mine").write(RUNS)


class TestRuns:
    def test_the_latest_run_is_first_and_other_folders_are_left_out(self, tmp_path: Path) -> None:
        add_run(tmp_path, "20260101-a")
        add_run(tmp_path, "20260102-b", "<p>report</p>")
        (tmp_path / "other").mkdir()
        (tmp_path / "broken").mkdir()
        (tmp_path / "broken" / "meta.json").write_text("{}")
        runs = RunList(tmp_path)
        assert [(run.id, run.has_report) for run in runs.summaries()] == [("20260102-b", True), ("20260101-a", False)]
        (tmp_path / "20260101-a" / "report" / "index.html").write_text("x")
        assert [run.has_report for run in runs.summaries()] == [True, True]

    @pytest.mark.parametrize("name", ["", ".", "..", "../x", "/etc", "missing"])
    def test_a_name_leads_nowhere_else(self, tmp_path: Path, name: str) -> None:
        add_run(tmp_path / "runs", "one")
        add_run(tmp_path, "x")
        assert RunList(tmp_path / "runs").folder(name) is None


class TestServer:
    def test_page_runs_and_report(self, server: PageServer) -> None:
        add_run(server.runs.parent, "one", "<p>the report</p>")
        status, text, headers = ask(server, "/")
        assert (status, "mqlab runs" in text) == (200, True)
        assert "default-src 'none'; script-src 'self'" in headers["Content-Security-Policy"]
        assert [run["id"] for run in json.loads(ask(server, "/api/runs")[1])] == ["one"]
        assert ask(server, "/runs/one/report/index.html")[1] == "<p>the report</p>"

    @pytest.mark.parametrize(
        "path",
        [
            "/runs/one/report/../meta.json",
            "/runs/one/report/%2e%2e/meta.json",
            "/runs/../one",
            "/static/../runs.py",
            "/x",
        ],
    )
    def test_nothing_else_is_served(self, server: PageServer, path: str) -> None:
        add_run(server.runs.parent, "one", "<p>the report</p>")
        assert ask(server, path)[0] == 404

    def test_another_host_name_is_refused(self, server: PageServer) -> None:
        assert ask(server, "/api/runs", Host="evil.example:80")[0] == 421

    @pytest.mark.parametrize("path", ["/api/start", "/api/runs/one/stop"])
    def test_what_changes_anything_needs_the_token(
        self, server: PageServer, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        started: list[tuple[str, str]] = []
        monkeypatch.setattr(server, "start_run", lambda *given: started.append(given))
        add_run(server.runs.parent, "one")
        asked = {"study": "jms-four-brokers", "scale": "quick"}
        assert ask(server, path, "POST", asked)[0] == 403
        assert ask(server, path, "POST", asked, **{TOKEN_HEADER: "wrong"})[0] == 403
        assert started == []
        # The run is not in progress.
        assert ask(server, path, "POST", asked, **{TOKEN_HEADER: server.token})[0] == (409 if "stop" in path else 200)
        assert started == ([] if "stop" in path else [("jms-four-brokers", "quick")])

    def test_only_known_studies_are_started(self, server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "start_run", lambda *_: pytest.fail("started"))
        for asked in ({"study": "/etc/passwd"}, {"study": "jms-four-brokers", "scale": "; rm"}, {}, [1]):
            assert ask(server, "/api/start", "POST", asked, **{TOKEN_HEADER: server.token})[0] == 400

    def test_a_run_in_progress_is_streamed_counted_and_stopped(self, server: PageServer) -> None:
        folder = add_run(server.runs.parent, "one")
        lab = subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"], stdout=-1)
        assert lab.stdout is not None
        with lab, lab.stdout as ready:
            ready.readline()
            live = LiveLog(folder.path, "mine")
            file = folder.path / LIVE_FILE
            file.write_text(file.read_text().replace(f'"pid":{os.getpid()}', f'"pid":{lab.pid}'))
            live.write(RUNS, **progress(1, "A", 99.0))
            assert json.loads(ask(server, "/api/runs")[1])[0]["is_live"] is True
            assert 'mqlab_rate{run="one",study="mine"} 99.0' in ask(server, "/metrics")[1]
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
            connection.request("GET", "/api/runs/one/live")
            stream = connection.getresponse()
            assert json.loads(stream.readline().removeprefix(b"data: "))["rate"] == 99.0
            stopped = ask(server, "/api/runs/one/stop", "POST", {}, **{TOKEN_HEADER: server.token})
            assert (stopped[0], json.loads(stopped[1])) == (200, {"stopping": "one"})
            assert lab.wait() == -signal.SIGINT
            # The stream says that the lab has ended, and ends.
            last = [line for line in stream.read().splitlines() if line.startswith(b"data: ")][-1]
            assert json.loads(last.removeprefix(b"data: "))["live"] is False
            connection.close()
