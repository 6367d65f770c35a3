"""The page of `mqlab serve` in a browser: many runs, a report, and a run in progress."""

import shutil
import threading
from collections.abc import Iterator
from dataclasses import asdict

import pytest
from playwright.sync_api import expect

from mqlab.events.folder import RunFolder
from mqlab.events.live import ENDED, RUNS, LiveLog
from mqlab.runner.conductor import Progress
from mqlab.serve.server import PageServer

from .conftest import Open, Scheme, violations

MANY = 1000


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
    expect(page.locator("#runs tr")).to_have_count(100)
    page.get_by_role("button", name="Show more").click()
    expect(page.locator("#runs tr")).to_have_count(200)
    page.get_by_label("Filter").fill("complete whole")
    expect(page.locator("#runs tr")).to_have_count(1)
    page.get_by_role("link", name="20260102-whole").click()
    expect(page.locator(".answer").first).to_be_visible()


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1400, "dark")])
def test_a_run_in_progress(server: PageServer, open_page: Open, width: int, scheme: Scheme) -> None:
    folder = server.runs.parent / f"20260101-{width % MANY:06d}"
    live = LiveLog(folder, "study 1 of 5: mine")
    live.write(RUNS, **asdict(Progress(0, 4, "A", "warm-up", 1.0)))
    page = open_page(server.url, width=width, scheme=scheme)
    expect(page.locator("#live-now")).to_have_text("study 1 of 5: mine: A, warm-up")
    for done, rate in enumerate((1000.0, 1010.0), start=1):
        live.write(RUNS, **asdict(Progress(done, 4, "A", "measure", 1.0, rate, 20.0)))
    row = page.locator("#live-rates tr")
    expect(row).to_contain_text("1,005")
    expect(row).to_contain_text("± 63.55 (6.323 %)")
    expect(page.locator("#live-facts")).to_contain_text("2 of 4")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []
    live.write(ENDED)
    expect(page.locator("#live")).to_be_hidden()


def test_without_the_token_nothing_can_be_changed(server: PageServer, open_page: Open) -> None:
    page = open_page(server.url.partition("#")[0])
    expect(page.locator("#runs tr")).to_have_count(100)
    expect(page.get_by_role("button", name="Start")).to_be_hidden()
