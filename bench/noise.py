"""Whether the lab sees other work on the machine, and whether it sees differences where there are none.

found, found_disk  share of the runs that are marked as disturbed: beside a process that takes half a core in bursts,
    and of persistent messages beside a process that writes and syncs
false, false_disk  share of such runs that are marked when nothing runs beside them
aa     share of false differences, of comparisons of a system with itself over three rounds in which the two took turns,
    by the method of verdicts and of `mqlab run --aa`; of undisturbed runs

Runs in which the host took processor time (above 1 %) say nothing about the first four, and are only counted.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import log, sqrt
from pathlib import Path
from statistics import fmean

from _common import arguments, finish, say
from _lab import Lab, scenario
from mqlab.study import Point
from mqlab.study.rounds.paired import StudyRounds
from mqlab.study.self_comparison import twin_of
from mqlab.study.statistics import t975

# Half of one core, ten times a second.
_BURSTS = """
import time
while True:
    end = time.monotonic() + 0.05
    while time.monotonic() < end:
        pass
    time.sleep(0.05)
"""
_WRITER = """
import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
while True:
    os.pwrite(file, bytes(1 << 16), 0)
    os.fsync(file)
"""
_QUIET_STEAL_SHARE = 0.01
# Rounds of each comparison of the system with itself: those of most points of a quick run.
_AA_ROUNDS = 3
_SYSTEM = "embedded"


@contextmanager
def _beside(program: str | None, *options: str) -> Iterator[None]:
    """A process that is not a child of this one: the lab takes its own descendants for a part of itself."""
    if program is None:
        yield
        return
    start = ["sh", "-c", '"$@" >/dev/null 2>&1 & echo $!', "sh", sys.executable, "-c", program, *options]
    shell = subprocess.run(start, capture_output=True, check=True)
    try:
        yield
    finally:
        os.kill(int(shell.stdout), signal.SIGKILL)


class _WatchedRuns:
    """Plays runs, and keeps which of them were marked; those that the host disturbed are only counted."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.marked: dict[tuple[str, bool], list[bool]] = {}
        self.by_host = 0

    def rate(self, point: Point, program: str | None = None, *options: str) -> float | None:
        """None for a disturbed run."""
        with _beside(program, *options):
            rate = self._lab.rate(point, _SYSTEM)
        noise = self._lab.noise
        assert noise is not None
        if noise.steal_seconds > _QUIET_STEAL_SHARE * noise.seconds * noise.cores:
            self.by_host += 1
        else:
            self.marked.setdefault((point.scenario, program is not None), []).append(bool(noise.disturbed))
        where = f"{point.scenario} {'beside another process' if program else 'alone'}"
        say(f"{where}: {noise.disturbed or 'undisturbed'}")
        return None if noise.disturbed else rate

    def share(self, scenario: str, *, busy: bool) -> dict[str, float | int | None]:
        return _share(self.marked.get((scenario, busy), ()))


def main() -> None:
    chosen = arguments(__doc__ or "")
    phases = {"measure": 0.2, "warmup": 0.1} if chosen.smoke else {"measure": 1.0, "warmup": 0.3}
    point, persistent = scenario("D", **phases), scenario("G", **phases)
    pairs: list[tuple[float, float]] = []
    rounds = chosen.rounds or (16 if chosen.quick else 120)
    with Lab() as lab, tempfile.TemporaryDirectory(dir=lab.folder.path.parent) as folder:
        lab.rate(point, _SYSTEM)
        runs = _WatchedRuns(lab)
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            runs.rate(point, _BURSTS)
            # Twice alone: the system takes turns with itself, A B B A.
            turns = runs.rate(point), runs.rate(point)
            first, second = turns if number % 2 else turns[::-1]
            if first is not None and second is not None:
                pairs.append((first, second))
            if number % 2 == 0:
                runs.rate(persistent, _WRITER, str(Path(folder) / "written"))
                runs.rate(persistent)
    finish(
        found=runs.share("D", busy=True), false=runs.share("D", busy=False), found_disk=runs.share("G", busy=True),
        false_disk=runs.share("G", busy=False), aa=_share(_false_differences(pairs)),
        disturbed_by_the_host=runs.by_host,
    )  # fmt: skip


def _share(marks: Sequence[bool]) -> dict[str, float | int | None]:
    """With Wilson's interval, which holds for shares near 0 and 1."""
    runs = len(marks)
    if not runs:
        return {"value": None, "low": None, "high": None, "rounds": 0}
    share, z = sum(marks) / runs, 1.96
    middle, scale = share + z * z / (2 * runs), 1 + z * z / runs
    half = z * sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs))
    low, high = (middle - half) / scale, (middle + half) / scale
    return {"value": round(share, 4), "low": round(low, 4), "high": round(high, 4), "rounds": runs}


def _false_differences(pairs: Sequence[tuple[float, float]]) -> list[bool]:
    """Whether each comparison finds a difference: as of so many points of one run, so that they share their noise."""
    study = StudyRounds(looks=1)
    points = [("D", f"{start}") for start in range(0, len(pairs) - _AA_ROUNDS + 1, _AA_ROUNDS)]
    names = _SYSTEM, twin_of(_SYSTEM)
    for point in points:
        start = int(point[1])
        window = pairs[start : start + _AA_ROUNDS]
        for name, rates in zip(names, zip(*window, strict=True), strict=True):
            study.add(name, "rate.work", point, point, dict(enumerate(rates)))
    return [_differs(study, names, point) for point in points]


def _differs(study: StudyRounds, names: tuple[str, str], point: tuple[str, str]) -> bool:
    """Whether the 95 % interval of the ratio excludes 1."""
    first, second = (study.find(name, "rate.work", point) for name in names)
    assert first is not None
    assert second is not None
    error, degrees = study.error({first: 1.0, second: -1.0})
    return abs(log(fmean(first.values.values()) / fmean(second.values.values()))) > t975(degrees) * error


if __name__ == "__main__":
    main()
