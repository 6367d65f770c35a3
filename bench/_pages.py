"""How soon a browser has drawn pages: reports of the five studies, and the list of a thousand runs.

The reports are of made-up measures of every point, those of the tests: their size is that of a real report.
"""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

from _common import HERE

sys.path.append(str(HERE / "tests"))

from mqlab.report import write_report
from mqlab.serve.runs import PAGE_RUNS
from mqlab.serve.server import PageServer
from mqlab.study import load_study, published_studies
from report.fabricated import fabricated

MANY: Final = 1000
# When the browser painted the largest element of the first screen, in ms after the start of the navigation.
_PAINTED: Final = """() => new Promise((resolve) => new PerformanceObserver(
    (list) => resolve(list.getEntries().at(-1).startTime)
).observe({ type: "largest-contentful-paint", buffered: true }))"""
# From a key to the list that it filters, in ms.
_FILTERED: Final = """() => new Promise((resolve) => {
    const field = document.getElementById("filter"), begun = performance.now();
    new MutationObserver(() => requestAnimationFrame(() => resolve(performance.now() - begun)))
        .observe(document.getElementById("runs"), { childList: true });
    field.value = "complete"; field.dispatchEvent(new Event("input"));
})"""


@contextmanager
def browser(program: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@contextmanager
def _opened(browser: Browser, url: str) -> Iterator[Page]:
    """Without anything in its cache."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.goto(url)
    yield page
    context.close()


def write_reports(folder: Path, studies: int) -> dict[str, str]:
    """The addresses of the reports of the first published studies."""
    return {
        name: write_report(fabricated(load_study(name)).write(folder / name)).as_uri()
        for name in published_studies()[:studies]
    }


def first_screen_s(browser: Browser, url: str) -> float:
    with _opened(browser, url) as page:
        return float(page.evaluate(_PAINTED)) / 1000


@contextmanager
def many_runs(folder: Path) -> Iterator[PageServer]:
    systems = [{"name": "embedded"}]
    for number in range(MANY):
        run = folder / f"2026-{number:04}"
        run.mkdir(parents=True)
        meta = {"study": "mine", "title": "My own", "scale": "quick", "status": "complete", "started": "2026"}
        (run / "meta.json").write_text(json.dumps({**meta, "systems": systems}))
    server = PageServer(folder)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def list_s(browser: Browser, server: PageServer) -> tuple[float, float]:
    """Seconds from opening the page until its list is drawn, and from a key of the filter until it has changed."""
    with _opened(browser, server.url) as page:
        page.locator("#runs tr").nth(PAGE_RUNS - 1).wait_for()
        drawn = float(page.evaluate("performance.now()"))
        return drawn / 1000, float(page.evaluate(_FILTERED)) / 1000
