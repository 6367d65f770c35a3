"""Whether `mqlab compare` finds a regression of 10 %, and how often it finds a difference that is not there.

Made-up runs go through the code that judges real ones: three points, ten rounds, rates and CPU that scatter by 4 %,
latencies by 15 %, half of it shared by the runs of a round.

power_10  share of the comparisons of a system that has 90 % of the base's rate at all points which end with exit code 5
    (regression). It should be 1.
false_alarm  share of the comparisons of two equal systems in which any figure is better or worse: at most 0.05.
false_same  share of the rates of that slower system that are called the same: 0.
unpaired_power_10, unpaired_false_alarm  the same of two finished runs, which took no turns.

The long form also runs `mqlab compare` on the embedded broker, two minutes each (`--part slower`, `--part equal`: these
alone):

real_power_10  the same share, of a broker whose disk has 225 marks a second (`disk_marks`) against one with 250: a
    producer that waits for each confirmation sends one message a mark, so the setting costs 10 %.
real_false_alarm  the same share, of the embedded broker against itself, as fast as it takes messages.
"""

import json
import random
import subprocess
import sys
import tempfile
from math import exp, sqrt
from pathlib import Path
from typing import Final

from _common import arguments, finish, level, say
from mqlab.cli.terminal.console import Exit
from mqlab.events.folder import RunFolder
from mqlab.report.claims.counted import CountedRates
from mqlab.report.comparison.comparison import BETTER, SAME, WORSE, SystemComparison, compare
from mqlab.report.data.run_results import PointKey, RunResults
from mqlab.study import Study, load_study

BASE, NEW = "base", "new"
SCENARIOS: Final = "ADG"
ROUNDS: Final = 10
# The deviation of the logarithm of a run.
DEVIATIONS: Final = {"rate.work": 0.04, "latency.p99": 0.15, "cpu.message": 0.04}
# The part of the variance that the runs of a round have in common.
SHARED: Final = 0.5
PLANTED: Final = 0.9
# Of the benchmark; the last two with real runs.
PARTS: Final = ("made-up", "slower", "equal")
REAL_COMPARISONS: Final = 10
MINUTES: Final = "2"
REAL_STUDY: Final = """
study: compare
title: A queue
scenarios:
  free: {queues: 1, producers: 1, consumers: 1, message: {size: 1KiB}}
  confirmed: {queues: 1, producers: 1, consumers: 1, message: {size: 1KiB, persistent: yes}, send: confirmed}
"""


def main() -> None:
    options = arguments(
        __doc__ or "", "fewer comparisons, and no real ones", part=f"only this part: {', '.join(PARTS)}"
    )
    parts = options.part or (PARTS[:1] if options.quick else PARTS)
    if unknown := {*parts} - {*PARTS}:
        raise SystemExit(f"there is no part {unknown.pop()}; there are {', '.join(PARTS)}")
    results = _made_up(options.rounds or (100 if options.quick else 2000)) if "made-up" in parts else {}
    for name, measure in (("slower", _slower), ("equal", _equal)):
        if name in parts:
            results |= measure(options.rounds or REAL_COMPARISONS)
    finish(**results)


def _made_up(count: int) -> dict[str, object]:
    chance, study = random.Random(10), load_study("jms-four-brokers")
    results: dict[str, object] = {}
    for prefix, is_paired in (("", True), ("unpaired_", False)):
        slower = [_compare(chance, study, PLANTED, is_paired=is_paired) for _ in range(count)]
        equal = [_compare(chance, study, 1.0, is_paired=is_paired) for _ in range(count)]
        results[f"{prefix}power_10"] = level([float(one.count(WORSE) > 0) for one in slower])
        results[f"{prefix}false_alarm"] = level([float(one.count(WORSE) + one.count(BETTER) > 0) for one in equal])
        if is_paired:
            rates = [row.outcome == SAME for one in slower for row in one.rows if row.metric == "rate.work"]
            results["false_same"] = level([float(one) for one in rates])
    return results


def _compare(chance: random.Random, study: Study, ratio: float, *, is_paired: bool) -> SystemComparison:
    """One comparison of made-up runs; the new system has `ratio` times the true rate of the base."""
    points = [point for point in study.points("quick") if point.scenario in SCENARIOS]
    rates: dict[PointKey, dict[int, dict[str, float]]] = {}
    for point in points:
        for number in range(ROUNDS):
            shared = {metric: chance.gauss() for metric in DEVIATIONS}
            for system, factor in ((BASE, 1.0), (NEW, ratio)):
                run = rates.setdefault((system, point.scenario, point.name), {})[number] = {}
                for metric, deviation in DEVIATIONS.items():
                    own = sqrt(SHARED) * shared[metric] * is_paired + sqrt(1 - SHARED * is_paired) * chance.gauss()
                    run[metric] = (factor if metric == "rate.work" else 1.0) * exp(deviation * own)
    systems = [{"name": name} for name in (BASE, NEW)]
    run_results = RunResults(RunFolder(Path("made-up")), {"scale": "quick", "systems": systems}, study)
    results = CountedRates(study, points, rates, 1, tuple(DEVIATIONS)).results(run_results)
    if not is_paired:
        vars(results).update(run_of={BASE: "one", NEW: "other"})
    return compare(results, BASE, NEW)


def _slower(comparisons: int) -> dict[str, object]:
    """Real comparisons with a broker that a setting makes slower by 10 %."""
    marks = ("embedded:disk_marks=250", "embedded:disk_marks=225")
    codes = []
    for number in range(1, comparisons + 1):
        code, outcomes = _run(*marks, "--only", "confirmed")
        codes.append(code)
        say(f"slower, comparison {number} of {comparisons}: exit code {code}, {outcomes}")
    return {"real_power_10": level([float(code == Exit.REGRESSION) for code in codes])}


def _equal(comparisons: int) -> dict[str, object]:
    """Real comparisons of the broker with itself."""
    alarms = []
    for number in range(1, comparisons + 1):
        code, outcomes = _run("embedded", "embedded", "--only", "free")
        alarms.append(float(bool({BETTER, WORSE} & {*outcomes})))
        say(f"equal, comparison {number} of {comparisons}: exit code {code}, {outcomes}")
    return {"real_false_alarm": level(alarms)}


def _run(*words: str) -> tuple[int, list[str]]:
    """The exit code of `mqlab compare`, and the outcome of every figure."""
    options = ("--study", "study.yaml", "--minutes", MINUTES, "--json")
    with tempfile.TemporaryDirectory(prefix="mqlab-bench-") as folder:
        (Path(folder) / "study.yaml").write_text(REAL_STUDY)
        command = [sys.executable, "-m", "mqlab", "compare", *words, *options]
        ended = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    if ended.returncode not in (Exit.OK, Exit.REGRESSION):
        raise SystemExit(f"mqlab compare ended with {ended.returncode}")
    return ended.returncode, [row["outcome"] for row in json.loads(ended.stdout)["rows"]]


if __name__ == "__main__":
    main()
