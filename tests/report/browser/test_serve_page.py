"""The page of `mqlab serve` in a browser: many runs, a report, and a run in progress."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import urlopen

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect

from cli.command import PROGRAM, environment
from mqlab.events.folder import RunFolder
from mqlab.events.live import ENDED, LIVE_FILE, RUNS, LiveLog
from mqlab.events.schema import SampleRow
from mqlab.pipeline.history.dataset import record_history
from mqlab.runner.results.progress import FinishedRun, Progress
from mqlab.serve.runs import PAGE_RUNS
from mqlab.serve.server import PageServer
from pipeline.synthetic_runs import MEASURE, Run, write_by_run

from .conftest import Open, Scheme, violations

MANY = 1000
LIVE_STUDY = """
study: mine
title: My own
scenarios:
  A: {topics: 1, producers: 1, consumers: 1, message: {size: 12B}, rate: 100/s}
scales:
  quick: {phases: {warmup: 200ms, measure: 1s, drain: 60s}, repeat: {until: none, least: 16, most: 16}}
"""


@pytest.fixture(scope="module")
def server(whole_run: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """A folder with a thousand runs, the last of which has a report."""
    parent = tmp_path_factory.mktemp("served")
    meta = whole_run.meta_file.read_text()
    for number in range(MANY - 1):
        folder = parent / f"20260101-{number:06d}"
        folder.mkdir()
        (folder / "meta.json").write_text(meta.replace('"status": "complete"', '"status": "incomplete"'))
    shutil.copytree(whole_run.path, parent / "20260102-whole")
    server = PageServer(parent)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_thousand_runs_are_listed_filtered_and_opened(server: PageServer, open_page: Open) -> None:
    page = open_page(server.url)
    expect(page.locator("#count")).to_have_text(f"{MANY} of {MANY} runs")
    expect(page.locator("#runs tr")).to_have_count(PAGE_RUNS)
    expect(page.locator("#place")).to_have_text(f"Page 1 of {MANY // PAGE_RUNS}")
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#runs th").first).to_have_text(f"20260101-{MANY - 1 - PAGE_RUNS:06d}")
    page.get_by_role("button", name="Previous").click()
    expect(page.locator("#runs th").first).to_have_text("20260102-whole")
    page.get_by_label("Filter").fill("complete whole")
    expect(page.locator("#runs tr")).to_have_count(1)
    page.get_by_role("link", name="20260102-whole").click()
    expect(page.locator(".answer").first).to_be_visible()


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1400, "dark")])
def test_a_run_in_progress(server: PageServer, open_page: Open, width: int, scheme: Scheme) -> None:
    folder = server.runs.parent / f"20260101-{width % MANY:06d}"
    live = LiveLog(folder, "study 1 of 5: mine")
    live.write(RUNS, **asdict(Progress(0, 4, "A", "warm-up", 1.0, system="embedded")))
    page = open_page(server.url, width=width, scheme=scheme)
    expect(page.locator("#live-now")).to_have_text("study 1 of 5: mine: embedded A, warm-up")
    for done, rate in enumerate((1000.0, 1010.0), start=1):
        finished = [FinishedRun("embedded", "A", rate, 0.1)]
        live.write(RUNS, **asdict(Progress(done, 4, "A", "measure", 1.0, rate, 20.0, "embedded", finished, 0, 1)))
    live.observe(SampleRow(source="broker", t=10**9, cpu_seconds=0.0, rss=2**20, depth=77, blocked=3))
    row = page.locator("#live-rates tr")
    expect(row).to_contain_text("1,005")
    expect(row).to_contain_text("10 %, reached")
    expect(page.locator("#live-facts")).to_contain_text("77 messages")
    expect(page.locator("#live-lights")).to_contain_text("Noise: fair other work disturbed 1 of 2 runs")
    expect(row).to_contain_text("± 63.55 (6.323 %)")
    expect(page.locator("#live-facts")).to_contain_text("2 of 4")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []
    live.write(ENDED)
    expect(page.locator("#live")).to_be_hidden()


def test_percentiles_and_the_audit_of_the_runs_that_are_over(server: PageServer, open_page: Open) -> None:
    folder = RunFolder(server.runs.parent / "20260101-000500")
    folder.events.mkdir()
    wrong = Run(2, point="b=1").send(0, 4, MEASURE).receive(0, 3, MEASURE + 4_000_000)
    write_by_run(folder, [Run(1, point="b=1").send(0, 4, MEASURE).receive(0, 4, MEASURE + 2_000_000), wrong])
    live = LiveLog(folder.path, "mine")
    finished = [FinishedRun("embedded", "A (b=1)", 1000.0, None)] * 2
    live.write(RUNS, **asdict(Progress(2, 4, "A (b=1)", "measure", 1.0, 1000.0, finished=finished)))
    page = open_page(server.url)
    # The means of two runs, of 2 and 4 ms.
    expect(page.locator("#live-rates tr td").last).to_have_text("3 ms")
    expect(page.locator("#live-lights")).to_contain_text("Audit so far: poor 2 of 2 runs have complete records")
    expect(page.locator("#live-lights")).to_contain_text("2 audited: 1 lost, 0 duplicated, 0 out of order")
    live.write(ENDED)
    expect(page.locator("#live")).to_be_hidden()


def test_a_run_is_started_and_stopped(server: PageServer, open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[str, str]] = []
    monkeypatch.setattr(server, "start_run", lambda *given: started.append(given))
    page = open_page(server.url)
    page.get_by_label("Study").first.select_option("mqseries-msmq-2000")
    page.get_by_label("Scale").select_option("standard")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#said")).to_have_text("started mqseries-msmq-2000")
    assert started == [("mqseries-msmq-2000", "standard")]
    folder = server.runs.parent / "20260101-000501"
    lab = subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"], stdout=-1)
    assert lab.stdout is not None
    with lab, lab.stdout as ready:
        ready.readline()
        live = LiveLog(folder, "mine")
        log = folder / LIVE_FILE
        log.write_text(log.read_text().replace(f'"pid":{os.getpid()}', f'"pid":{lab.pid}'))
        live.write(RUNS, **asdict(Progress(0, 4, "A", "measure", 1.0)))
        expect(page.locator("#live-now")).to_contain_text("mine: A, measure")
        page.once("dialog", lambda dialog: dialog.dismiss())
        page.get_by_role("button", name="Stop").click()
        assert lab.poll() is None
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Stop").click()
        assert lab.wait() == -signal.SIGINT
    expect(page.locator("#live")).to_be_hidden()


def test_a_real_run_is_watched_until_it_is_over(open_page: Open, tmp_path: Path) -> None:
    """The command serves the page itself; its load ends when the test has seen it."""
    (tmp_path / "mine.yaml").write_text(LIVE_STUDY)
    command = [*PROGRAM, "run", "mine.yaml", "--live", "--runs", "runs"]
    # `true` stands for the browser that the command would open.
    lab = subprocess.Popen(
        command, cwd=tmp_path, env=environment(BROWSER="true"), stderr=subprocess.PIPE, text=True
    )  # fmt: skip
    assert lab.stderr is not None
    with lab, lab.stderr as said:
        url = next(line.removeprefix("page: ").strip() for line in said if line.startswith("page: "))
        page = open_page(url)
        expect(page.locator("#live-now")).to_contain_text("mine: embedded A", timeout=300_000)
        expect(page.locator("#live-rates tr")).to_contain_text("ms", timeout=300_000)
        page.close()
        rest = said.read()
    assert lab.returncode == 0, rest
    assert "report: " in rest
    with pytest.raises(OSError, match="refused"):
        urlopen(url)


def test_without_the_token_nothing_can_be_changed(server: PageServer, open_page: Open) -> None:
    page = open_page(server.url.partition("#")[0])
    expect(page.locator("#runs tr")).to_have_count(PAGE_RUNS)
    expect(page.get_by_role("button", name="Start")).to_be_hidden()


def test_two_runs_are_compared(server: PageServer, whole_run: RunFolder, open_page: Open) -> None:
    shutil.copytree(whole_run.path, server.runs.parent / "20260103-again")
    try:
        page = open_page(server.url)
        for name in ("20260103-again", "20260102-whole"):
            page.get_by_label(f"Compare {name}").check()
        page.get_by_role("button", name="Compare two runs").click()
        expect(page.locator("#compared")).to_contain_text("embedded of")
        page.get_by_role("link", name="All figures").click()
        expect(page.locator(".answer").first).to_contain_text("against")
    finally:
        shutil.rmtree(server.runs.parent / "20260103-again")


def test_runs_that_cannot_be_compared_say_why(server: PageServer, open_page: Open) -> None:
    page = open_page(server.url)
    for name in ("20260102-whole", "20260101-000998"):
        page.get_by_label(f"Compare {name}").check()
    page.get_by_role("button", name="Compare two runs").click()
    expect(page.locator("#compared")).to_contain_text("not measured yet")


def test_the_history_shows_where_a_level_changed(server: PageServer, open_page: Open) -> None:
    history = record_history(RunFolder(server.runs.parent / "20260102-whole"))
    rows = pq.read_table(history)
    for number in range(8):
        factor = 1.0 if number < 4 else 1.5
        values = pc.multiply(rows["value"], factor * (1 + 0.001 * (number % 3)))
        started = pa.repeat(pa.scalar(datetime(2026, 1, 1 + number, tzinfo=UTC), rows["started"].type), len(rows))
        made = rows.set_column(rows.column_names.index("value"), "value", values)
        made = made.set_column(rows.column_names.index("started"), "started", started)
        pq.write_table(made, history.with_name(f"made-{number}.parquet"))
    history.unlink()
    page = open_page(server.url)
    page.get_by_text("History").click()
    page.get_by_label("Metric").select_option("rate.received")
    expect(page.locator("#trends tr")).to_have_count(8)
    expect(page.locator("#trends tr").first).to_contain_text("2026-01-05 00:00: +5")
    expect(page.locator("#trends circle").first).to_be_visible()
    assert violations(page) == []
