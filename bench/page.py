"""What the pages cost, and how soon they are there. All in Chromium.

watched: the rate with the live page open over the rate without (1 is: nothing). The page is served by a process of its
own, as `mqlab run --live` does it. page_cpu_percent: of the processors' time while the page is open, the share of the
server and the browser; a rate cannot lose much more by them, and this is hardly noisy.
first_screen_s: until the first screen of a report is painted; the slowest of the five studies.
list_s, filter_s: in a folder with a thousand runs, until the page has listed them, and until a filter has changed it.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import psutil

from _common import arguments, finish, interleaved, level, medians, ratio, say
from _lab import Lab, scenario
from _pages import browser, first_screen_s, list_s, many_runs, write_reports
from mqlab.events.live import RUNS, LiveLog


def find_chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def opened(run: Path, settle_s: float) -> Iterator[list[subprocess.Popen[str]]]:
    """The page that shows this run, in a browser that has drawn it; without Chromium only the server runs.

    Gives the processes of both.
    """
    command = [sys.executable, "-m", "mqlab", "serve", "--no-browser", "--runs", str(run.parent)]
    with tempfile.TemporaryDirectory(prefix="mqlab-page-") as profile:
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        processes = [server]
        try:
            assert server.stderr is not None
            url = server.stderr.readline().removeprefix("page: ").strip()
            check_live(url, run.name)
            if program := find_chromium():
                options = [
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    f"--user-data-dir={profile}",
                    "--remote-debugging-port=0",
                ]
                quiet = subprocess.DEVNULL
                processes.append(subprocess.Popen([program, *options, url], stdout=quiet, stderr=quiet, text=True))
            time.sleep(settle_s)
            yield processes
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait()
            if server.stderr is not None:
                server.stderr.close()


def of_page(started: list[subprocess.Popen[str]]) -> list[psutil.Process]:
    """These processes and all that they have started."""
    parents = [psutil.Process(process.pid) for process in started]
    return [*parents, *(child for parent in parents for child in parent.children(recursive=True))]


def cpu_seconds(processes: list[psutil.Process]) -> float:
    seconds = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # a helper of the browser has ended
            seconds += sum(process.cpu_times()[:2])
    return seconds


@contextmanager
def paused(processes: list[psutil.Process]) -> Iterator[None]:
    """As if the page were closed, and open again sooner than a browser starts: nothing of it runs."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def check_live(url: str, run: str) -> None:
    """A page that does not show the run would cost nothing."""
    with urllib.request.urlopen(f"{url.partition('#')[0]}api/runs") as answer:
        live = json.load(answer)["live"]
    if live != [run]:
        raise SystemExit(f"the page does not show the run: {live}")


def watching(chosen: Namespace) -> dict[str, list[float]]:
    """The rates with the page and without, and the page's percent of the processors' time."""
    topic = scenario("A", measure=0.1 if chosen.smoke else 0.8 if chosen.quick else 2.0)
    # Until the browser has started, and until it has drawn what it missed while it was paused.
    start_s, settle_s = (0.0, 0.0) if chosen.smoke else (8.0, 1.0)
    with Lab() as lab:
        meta = {"study": "bench", "title": "bench", "scale": "quick", "status": "incomplete", "started": "now"}
        lab.folder.write_meta({**meta, "systems": [{"name": "embedded"}]})
        live = LiveLog(lab.folder.path, "bench")
        lab.observe = live.observe
        lab.watch = lambda phase, length: live.write(RUNS, label="A", phase=phase, phase_seconds=length)

        lab.rate(scenario("A", measure=0.3))
        page_cpu: list[float] = []
        with opened(lab.folder.path, start_s) as started:
            page = of_page(started)

            def watched() -> float:
                time.sleep(settle_s)
                used, begin = cpu_seconds(page), time.monotonic()
                rate = lab.rate(topic)
                seconds = (time.monotonic() - begin) * (os.cpu_count() or 1)
                page_cpu.append(100 * (cpu_seconds(page) - used) / seconds)
                return rate

            def unwatched() -> float:
                with paused(page):
                    return lab.rate(topic)

            rounds = chosen.rounds or (5 if chosen.quick else 40)
            return interleaved({"with": watched, "without": unwatched}, rounds) | {"page_cpu": page_cpu}


def drawing(chosen: Namespace, program: str) -> dict[str, object]:
    rounds = 1 if chosen.smoke else 5
    with tempfile.TemporaryDirectory(prefix="mqlab-pages-") as name, browser(program) as opened_browser:
        folder = Path(name)
        reports = write_reports(folder / "reports", 1 if chosen.smoke else 5)
        first = {
            study: round(median(first_screen_s(opened_browser, url) for _ in range(rounds)), 3)
            for study, url in reports.items()
        }
        with many_runs(folder / "runs") as server:
            times = [list_s(opened_browser, server) for _ in range(rounds)]
    listed, filtered = zip(*times, strict=True)
    return {
        "first_screen_s": max(first.values()), "first_screen_s_of": first, "list_s": level([*listed]),
        "filter_s": level([*filtered]),
    }  # fmt: skip


def main() -> None:
    chosen = arguments(__doc__ or "")
    program = find_chromium()
    if program is None:
        say("Chromium is missing (apt-get install chromium): nothing is drawn")
    drawn = drawing(chosen, program) if program else {}
    found = watching(chosen)
    page_cpu = level(found.pop("page_cpu"))
    watched = ratio(found["with"], found["without"])
    finish(watched=watched, page_cpu_percent=page_cpu, messages_per_second=medians(found), **drawn)


if __name__ == "__main__":
    main()
