"""What it costs to watch a run: the rate with the live page open in a browser over the rate without (1 is: nothing).

The page is served by a process of its own, as `mqlab run --live` does it, and shown by Chromium.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from _common import arguments, finish, interleaved, medians, ratio
from _lab import Lab, scenario
from mqlab.events.live import RUNS, LiveLog


@contextmanager
def opened(runs: Path, settle_s: float) -> Iterator[None]:
    """The page of these runs, in a browser that has drawn it; without Chromium only the server runs."""
    command = [sys.executable, "-m", "mqlab", "serve", "--no-browser", "--runs", str(runs)]
    with tempfile.TemporaryDirectory(prefix="mqlab-page-") as profile:
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        processes = [server]
        try:
            assert server.stderr is not None
            url = server.stderr.readline().removeprefix("page: ").strip()
            if browser := shutil.which("chromium"):
                options = [
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    f"--user-data-dir={profile}",
                    "--remote-debugging-port=0",
                ]
                quiet = subprocess.DEVNULL
                processes.append(subprocess.Popen([browser, *options, url], stdout=quiet, stderr=quiet, text=True))
            time.sleep(settle_s)
            yield
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait()
            if server.stderr is not None:
                server.stderr.close()


def main() -> None:
    chosen = arguments(__doc__ or "")
    seconds = 0.1 if chosen.smoke else 0.8 if chosen.quick else 2.0
    topic = scenario("A", measure=seconds)
    with Lab() as lab:
        live = LiveLog(lab.folder.path, "bench")
        lab.watch = lambda phase, length: live.write(RUNS, label="A", phase=phase, phase_seconds=length)

        def watched() -> float:
            with opened(lab.folder.path.parent, 0.0 if chosen.smoke else 4.0):
                return lab.rate(topic)

        lab.rate(scenario("A", measure=0.3))
        found = interleaved(
            {"with": watched, "without": lambda: lab.rate(topic)}, chosen.rounds or (8 if chosen.quick else 20)
        )
    finish(watched=ratio(found["with"], found["without"]), messages_per_second=medians(found))


if __name__ == "__main__":
    main()
