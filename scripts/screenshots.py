"""Pictures of the pages for those who review a change: `python scripts/screenshots.py` writes docs/screenshots.

The reports are of made-up measures, those of the tests, so that a picture changes only if the page does. Prints how
long the browser took to draw the first screen of each page.
"""

import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final, Literal

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from playwright.sync_api import Browser, sync_playwright  # noqa: E402

from cli.running_broker import broker_process  # noqa: E402
from mqlab.client import connect  # noqa: E402
from mqlab.events.folder import RunFolder  # noqa: E402
from mqlab.events.live import RUNS, LiveLog  # noqa: E402
from mqlab.events.schema import SampleRow  # noqa: E402
from mqlab.report import write_report  # noqa: E402
from mqlab.report.render.run_index import write_index  # noqa: E402
from mqlab.runner.results.progress import FinishedRun, Progress  # noqa: E402
from mqlab.serve.broker_page import BrokerLogin, BrokerPageServer  # noqa: E402
from mqlab.serve.http import LoopbackServer  # noqa: E402
from mqlab.serve.server import PageServer  # noqa: E402
from mqlab.study import built_in_studies, load_study  # noqa: E402
from pipeline.synthetic_runs import MEASURE, Run, write_by_run  # noqa: E402
from report.fabricated import fabricated  # noqa: E402
from report.synthetic_runs import SyntheticRuns, add_latency_slots, add_system, whole_study  # noqa: E402

TARGET: Final = ROOT / "docs" / "screenshots"
MOST_BYTES: Final = 150_000
WIDE: Final = (1400, 900)
PHONE: Final = (390, 844)
# The studies beside the first one, of which the index has a line each.
_STUDIES: Final = 2
# The rates of the broker's page, which it knows after its second look.
_RATES: Final = "#destinations td:nth-child(7):not(:empty)"
# The percentiles of a run that is over.
_PERCENTILES: Final = "#live-rates td:last-child:not(:empty)"
# Letters that look the same wherever they stand make a picture a third smaller.
_OPTIONS: Final = ("--no-sandbox", "--disable-lcd-text", "--disable-font-subpixel-positioning")
Scheme = Literal["light", "dark"]


class Camera:
    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    def take(
        self, name: str, url: str, size: tuple[int, int] = WIDE, scheme: Scheme = "light", wait: str = "",
        click: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """A picture of the first screen, or of what is there after some clicks; `wait` is an element to wait for."""
        context = self._browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        page = context.new_page()
        page.goto(url)
        if wait:
            page.locator(wait).first.wait_for()
        for selector in click:
            page.locator(selector).first.click()
        page.wait_for_timeout(500)
        painted = page.evaluate("performance.getEntriesByName('first-contentful-paint').map((one) => one.startTime)[0]")
        file = TARGET / f"{name}.png"
        page.screenshot(path=file)
        context.close()
        large = "; too large" if file.stat().st_size > MOST_BYTES else ""
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes{large}, drawn after {painted or 0:.0f} ms")


def two_systems(fault: str = "") -> SyntheticRuns:
    made = whole_study()
    made.meta["systems"].append({"name": "artemis", "version": "2.40", "settings": {}, "stamps": []})
    add_system(made, "artemis", 0.6)
    for row in made.rows["measures"]:
        row["bound_by"] = "broker"
    add_latency_slots(made, "A", fault=fault)
    return made


@contextmanager
def served(server: LoopbackServer) -> Iterator[str]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def take_reports(camera: Camera, runs: Path) -> None:
    folder = two_systems().write(runs / "20260101-120000-jms-four-brokers")
    url = write_report(folder).as_uri()
    folders = [folder]
    for study in built_in_studies()[:_STUDIES]:
        folders.append(fabricated(load_study(study)).write(runs / f"20260102-120000-{study}"))
        write_report(folders[-1])
    camera.take("index", write_index(folders).as_uri())
    camera.take("report", url)
    camera.take("report-dark", url, scheme="dark")
    camera.take("report-phone", url, PHONE)
    with_fault = two_systems("kill broker").write(runs / "20260101-130000-jms-four-brokers")
    url = write_report(with_fault).as_uri()
    heat = ("#tab-evidence", "#latency-over-time summary")
    camera.take("report-heat-map", url, click=heat)
    camera.take("report-heat-map-dark", url, scheme="dark", click=heat)


def take_serve(camera: Camera, runs: Path) -> None:
    with served(PageServer(runs)) as url:
        camera.take("serve", url, wait="#runs tr")
        folder = next(runs.glob("20260102-*"))
        # A run of one message that took 2 ms.
        ended = Run(1, scenario="A").send(0, 1, MEASURE).receive(0, 1, MEASURE + 2_000_000)
        (folder / "events").mkdir(exist_ok=True)
        write_by_run(RunFolder(folder), [ended])
        live = LiveLog(folder, "study 2 of 5: jms-four-brokers")
        rates = (1000.0, 1080.0, 1040.0, 1035.0, 1050.0)
        for done, rate in enumerate((None, *rates)):
            finished = [] if rate is None else [FinishedRun("embedded", "A", rate, 0.03)]
            step = Progress(done, 12, "A", "measure", 10.0, rate, 94.0, "embedded", finished, 0, done // 4)
            live.write(RUNS, **asdict(step))
        for second in (1, 2, 3):
            t = second * 10**9
            live.observe(SampleRow(source="agent-1", t=t, cpu_seconds=0.8 * second, rss=90 * 2**20))
            live.observe(SampleRow(source="disk", t=t, cpu_seconds=0.0, rss=0, sync_seconds=0.1 * second))
            live.observe(
                SampleRow(source="broker", t=t, cpu_seconds=0.9 * second, rss=120 * 2**20, depth=4200, blocked=1)
            )
        camera.take("live", url, wait=_PERCENTILES)
        camera.take("live-phone-dark", url, PHONE, "dark", wait=_PERCENTILES)


def take_broker(camera: Camera, folder: Path) -> None:
    with broker_process(folder, "--data", folder / "data") as (_, address), connect(address) as connection:
        session = connection.session()
        for queue, count in (("orders", 120), ("payments", 14), ("returns", 3)):
            producer = session.producer(f"queue:{queue}")
            for number in range(count):
                producer.send(f"{queue} {number}".encode(), properties={"number": number})
        consumer = session.consumer("topic:news")
        with served(BrokerPageServer(BrokerLogin(address))) as url:
            camera.take("broker", url, wait=_RATES, click=("[aria-label='Look at queue:returns']",))
        consumer.close()


def main() -> None:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        sys.exit("Chromium is missing: apt-get install chromium")
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mqlab-screenshots-") as name, sync_playwright() as playwright:
        folder = Path(name)
        browser = playwright.chromium.launch(executable_path=program, args=[*_OPTIONS])
        camera = Camera(browser)
        runs = folder / "runs"
        take_reports(camera, runs)
        take_serve(camera, runs)
        take_broker(camera, folder)
        browser.close()


if __name__ == "__main__":
    main()
