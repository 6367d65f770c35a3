"""The page of `mqlab serve`: runs, reports, the live view; tokens, hosts and paths."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from mqlab.events.folder import RunFolder
from mqlab.events.live import ENDED, LIVE_FILE, RUNS, LiveLog, read_live
from mqlab.events.schema import SampleRow
from mqlab.runner.results.progress import FinishedRun, Progress
from mqlab.serve.http import TOKEN_HEADER
from mqlab.serve.live import LiveView, live_process, live_state
from mqlab.serve.runs import PAGE_RUNS, RunList
from mqlab.serve.server import PageServer
from pipeline.synthetic_runs import MEASURE, Run, write_by_run

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


def wait_until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        time.sleep(0.02)


def progress(done: int, label: str, rate: float | None = None, of: str = "A") -> dict[str, object]:
    """`of`: the point of the run that has just ended, with this rate."""
    finished = [FinishedRun("embedded", of, rate, 0.03)] if rate is not None else []
    return asdict(Progress(done, 4, label, "measure", 2.0, rate, 12.5, "embedded", finished))


class TestLiveLog:
    def test_each_finished_run_is_told_once(self, tmp_path: Path) -> None:
        live = LiveLog(tmp_path, "study 1 of 2: mine")
        for step in (progress(0, "A"), progress(1, "B", 10.0), progress(1, "B"), progress(2, "A", 30.0, "B")):
            live.write(RUNS, **step)
        state = live_state(tmp_path)
        of = {"system": "embedded", "goal": 0.03}
        assert state["rates"] == [{"point": "A", **of, "rate": 10.0}, {"point": "B", **of, "rate": 30.0}]
        assert (state["title"], state["runs_done"], state["label"]) == ("study 1 of 2: mine", 2, "A")
        assert state["live"] is True
        live.write(ENDED)
        assert live_state(tmp_path)["live"] is False

    def test_an_unfinished_line_and_a_folder_without_a_log(self, tmp_path: Path) -> None:
        assert read_live(tmp_path) == ([], 0)
        LiveLog(tmp_path, "mine")
        with (tmp_path / LIVE_FILE).open("a") as file:
            file.write('{"kind":"ru')
        assert [line["kind"] for line in read_live(tmp_path)[0]] == ["started"]

    def test_a_line_is_read_once_even_if_it_was_unfinished(self, tmp_path: Path) -> None:
        live = LiveLog(tmp_path, "mine")
        view = LiveView(tmp_path)
        assert view.state()["kind"] == "started"
        with (tmp_path / LIVE_FILE).open("a") as file:
            file.write('{"kind":"runs","runs_done":0,')
            file.flush()
            assert view.state()["kind"] == "started"
            file.write('"label":"A"}\n')
        assert view.state()["label"] == "A"
        live.write(RUNS, **progress(1, "B", 7.0))
        assert [rate["rate"] for rate in view.state()["rates"]] == [7.0]

    def test_the_use_of_broker_agents_and_disk_since_the_sample_before(self, tmp_path: Path) -> None:
        live = LiveLog(tmp_path, "mine")
        assert live_state(tmp_path)["usage"] == {}
        for second in (1, 2, 3):
            t = second * 10**9 + 10**8
            live.observe(SampleRow(source="disk", t=second * 10**9, cpu_seconds=0.0, rss=0, sync_seconds=0.25 * second))
            live.observe(
                SampleRow(source="broker", t=t, cpu_seconds=0.5 * second, rss=1000, depth=40 * second, blocked=2)
            )
        usage = live_state(tmp_path)["usage"]
        assert usage["disk"]["busy"] == pytest.approx(0.25)
        # The last sample came less than a second after the file before.
        assert usage["broker"] == {
            "rss": 1000,
            "depth": 80,
            "blocked": 2,
            "cpu": pytest.approx(0.5),
            "busy": None,
            "written": None,
        }
        live.end()
        assert live_state(tmp_path)["usage"] == {}
        assert [file.name for file in tmp_path.iterdir()] == [LIVE_FILE]

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

    def test_a_thousand_runs_come_in_pages_and_are_read_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(1000):
            add_run(tmp_path, f"2026-{number:04}")
        runs = RunList(tmp_path)
        first = runs.page()
        assert (len(first.runs), first.pages, first.found, first.total) == (PAGE_RUNS, 1000 // PAGE_RUNS, 1000, 1000)
        assert first.runs[0].id == "2026-0999"
        monkeypatch.setattr("json.loads", lambda *_: pytest.fail("a run that has not changed was read again"))
        assert runs.page(2).runs[0].id == f"2026-{999 - PAGE_RUNS:04}"
        assert [run.id for run in runs.page(1, "0042 EMBEDDED").runs] == ["2026-0042"]
        assert runs.page(10_000).page == 1000 // PAGE_RUNS
        assert runs.page(3, "nothing").pages == 1

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
        assert [run["id"] for run in json.loads(ask(server, "/api/runs")[1])["runs"]] == ["one"]
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

    def test_a_connection_goes_on_after_an_action(self, server: PageServer) -> None:
        """Also after one that needs no body, of which the browser sends one."""
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
        for path, status in (("/api/start", 400), ("/api/other", 404), ("/api/runs/one/stop", 409)):
            connection.request("POST", path, "{}", {TOKEN_HEADER: server.token})
            answer = connection.getresponse()
            assert (answer.status, b"error" in answer.read()) == (status, True)
        add_run(server.runs.parent, "one")
        lab = subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"], stdout=-1)
        assert lab.stdout is not None
        with lab, lab.stdout as ready:
            ready.readline()
            LiveLog(server.runs.parent / "one", "mine")
            file = server.runs.parent / "one" / LIVE_FILE
            file.write_text(file.read_text().replace(f'"pid":{os.getpid()}', f'"pid":{lab.pid}'))
            connection.request("POST", "/api/runs/one/stop", "{}", {TOKEN_HEADER: server.token})
            assert json.loads(connection.getresponse().read()) == {"stopping": "one"}
            same = connection.sock
            connection.request("GET", "/api/runs")
            assert connection.getresponse().status == 200
            assert connection.sock is same
        connection.close()

    def test_only_known_studies_are_started(self, server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "start_run", lambda *_: pytest.fail("started"))
        for asked in ({"study": "/etc/passwd"}, {"study": "jms-four-brokers", "scale": "; rm"}, {}, [1]):
            assert ask(server, "/api/start", "POST", asked, **{TOKEN_HEADER: server.token})[0] == 400

    def check_figures(self, server: PageServer, folder: RunFolder, live: LiveLog) -> None:
        """Percentiles and the audit of the run that has ended, and the use of the broker, are among the metrics."""
        run = Run(1, point="b=1").send(0, 4, MEASURE).receive(0, 3, MEASURE + 2_000_000)
        folder.events.mkdir()
        write_by_run(folder, [run])
        for second in (1, 2, 3):
            t = second * 10**9
            live.observe(SampleRow(source="disk", t=t, cpu_seconds=0.0, rss=0, sync_seconds=0.5 * second))
            live.observe(
                SampleRow(source="broker", t=t + 1, cpu_seconds=0.0, rss=5, bytes_written=2000 * second, depth=7)
            )
        wait_until(lambda: "mqlab_latency_seconds{" in ask(server, "/metrics")[1])
        metrics = ask(server, "/metrics")[1]
        of_point = 'point="A (b=1)",quantile="0.99",run="one",study="mine",system="embedded"'
        (value,) = re.findall(rf"mqlab_latency_seconds{{{re.escape(of_point)}}} (\S+)", metrics)
        assert float(value) == pytest.approx(0.002, rel=0.002)
        assert 'mqlab_faults{fault="lost",run="one",study="mine"} 1.0' in metrics
        assert 'mqlab_backlog_messages{run="one",source="broker",study="mine"} 7.0' in metrics
        assert 'mqlab_written_bytes_per_second{run="one",source="broker",study="mine"} 2000.0' in metrics
        assert 'mqlab_busy_share{run="one",source="disk",study="mine"} 0.5' in metrics
        assert 'mqlab_resident_bytes{run="one",source="disk"' not in metrics

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
            listed = json.loads(ask(server, "/api/runs?page=9&text=none")[1])
            assert (listed["live"], listed["runs"], listed["page"]) == (["one"], [], 1)
            assert 'mqlab_rate{run="one",study="mine"} 99.0' in ask(server, "/metrics")[1]
            self.check_figures(server, folder, live)
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
