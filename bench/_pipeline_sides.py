"""The sides of `pipeline.py`: Spark, DuckDB and Polars over the same files, their times and their answers."""

import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from math import isclose, nan
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import psutil
from pyspark.sql import SparkSession

from _common import arguments, finish, interleaved, level, ratio, say
from _other_engines import Answers, Engine, duckdb_answers, polars_answers
from _synthetic_events import RUNS, SyntheticRun, write_events
from mqlab.events.compaction import compact
from mqlab.events.folder import RunFolder
from mqlab.events.schema import COMPLETE
from mqlab.pipeline.measure import measure
from mqlab.pipeline.measure_tables import read_table
from mqlab.pipeline.schema import DELIVERY_CLASSES, TABLES
from mqlab.pipeline.session import spark_session

SIZES = (10_000_000, 100_000_000, 1_000_000_000)
QUICK_SIZES = (1_000_000, 10_000_000)
SMOKE_SIZES = (20_000, 100_000)
ENGINES: dict[str, Engine] = {"duckdb": duckdb_answers, "polars": polars_answers}
_SPARK = "spark"
_STUDY_RUNS = 60
_STUDY_MESSAGES = 20_000
# A study of many runs has runs with some hundred event rows.
_SMALL_MESSAGES = 2_000
_SAMPLE_SECONDS = 0.2
# An engine that takes more than this share of the machine's memory is ended, before the system ends another process.
_MEMORY_SHARE = 0.7


class Bench:
    """The sides that are measured, in folders of each size, and what each of them answered."""

    def __init__(self, stack: ExitStack, parent: Path, sizes: list[int]) -> None:
        begin = time.perf_counter()
        self._spark: SparkSession = spark_session()
        self.start_s = time.perf_counter() - begin
        stack.callback(self._spark.stop)
        # Processes of their own, so that their memory is not Spark's.
        self._others = {
            name: stack.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
            for name in ENGINES if find_spec(name) is not None
        }  # fmt: skip
        self._processes = {name: psutil.Process(pool.submit(os.getpid).result()) for name, pool in self._others.items()}
        self._folders: dict[int, RunFolder] = {}
        self._answers: dict[tuple[int, str], Answers] = {}
        self._truth: dict[int, Mapping[int, Counter[str]]] = {}
        # By the number of messages, or by what else was measured.
        self.peak_bytes: Counter[int | str] = Counter()
        for size in sizes:
            say(f"writing the events of {size:,} messages")
            self._folders[size], self._truth[size] = write_events(parent / str(size), size)

    @property
    def engines(self) -> list[str]:
        return [*self._others]

    def has_answers(self, size: int, side: str) -> bool:
        return (size, side) in self._answers

    def seconds(self, size: int, side: str) -> float:
        """The time of a pass; not a number if the engine had too little memory."""
        begin = time.perf_counter()
        folder = self._folders[size]
        if side == _SPARK:
            with _repeatedly(partial(self._sample_memory, size)):
                measure(self._spark, folder, exhibits=())
            seconds = time.perf_counter() - begin
            self._answers[size, side] = pipeline_answers(folder)
        else:
            try:
                with _repeatedly(partial(_end_if_too_large, self._processes[side])):
                    self._answers[size, side] = self._others[side].submit(ENGINES[side], folder.events).result()
            except (BrokenProcessPool, MemoryError) as error:
                say(f"{side} has no answers at {size:,} messages, perhaps for want of memory: {error}")
                self._answers.pop((size, side), None)
                return nan
            seconds = time.perf_counter() - begin
        return seconds

    def check(self, size: int) -> None:
        for side in (side for side in (_SPARK, *self.engines) if self.has_answers(size, side)):
            for run, counted in self._truth[size].items():
                compare(f"{side}, {RUNS[run - 1].name} of {size:,}", counted, self._answers[size, side][run])
            # The runs that are not clean have no figures.
            figures = self._answers[size, _SPARK][1]
            compare(f"{side}, figures of {size:,}", figures, self._answers[size, side][1])

    def study_pass(self, parent: Path) -> float:
        points = [SyntheticRun(f"point {number}", 1 / _STUDY_RUNS, RUNS[0].faults) for number in range(_STUDY_RUNS)]
        folder, _ = write_events(parent / "study", _STUDY_RUNS * _STUDY_MESSAGES, runs=points)
        measure(self._spark, folder, exhibits=())
        begin = time.perf_counter()
        measure(self._spark, folder, exhibits=())
        return time.perf_counter() - begin

    def compaction(self, parent: Path, runs: int, rounds: int) -> dict[str, object]:
        """Passes over many small runs, of event files as agents write them and of compacted ones."""
        points = [SyntheticRun(f"point {number}", 1 / runs, ()) for number in range(runs)]
        plain, _ = write_events(parent / "plain", runs * _SMALL_MESSAGES, runs=points)
        compacted = RunFolder(shutil.copytree(plain.path, parent / "compacted"))
        compacted.write_meta({**compacted.meta(), "status": COMPLETE})
        begin = time.perf_counter()
        compact(compacted)
        compact_s = time.perf_counter() - begin
        sides = {"plain": plain, "compacted": compacted}
        found = interleaved({name: partial(self._pass_ms, folder) for name, folder in sides.items()}, rounds)
        for table in TABLES:
            if len({(folder.measures / table / "part.parquet").read_bytes() for folder in sides.values()}) > 1:
                raise SystemExit(f"{table}: compacted events have other measures")
        return {
            "compacted_over_plain": ratio(found["compacted"], found["plain"]),
            "compaction": {
                "runs": runs,
                "seconds": round(compact_s, 1),
                "files": {name: sum(1 for _ in folder.events.glob("*/*")) for name, folder in sides.items()},
                "pass_s": {name: round(median(values) / 1000, 1) for name, values in found.items()},
            },
        }

    def many_runs(self, parent: Path, runs: int, rounds: int) -> dict[str, object]:
        """Warm passes over very many small runs, whose event files are compacted, and the memory that they take."""
        name = f"{runs} runs"
        say(f"writing the events of {runs:,} small runs")
        points = [SyntheticRun(f"point {number}", 1 / runs, ()) for number in range(runs)]
        folder, _ = write_events(parent / name, runs * _SMALL_MESSAGES, runs=points)
        folder.write_meta({**folder.meta(), "status": COMPLETE})
        compact(folder)
        with _repeatedly(partial(self._sample_memory, name)):
            self._pass_ms(folder)  # the first pass loads and compiles
            found = interleaved({name: partial(self._pass_ms, folder)}, rounds)
        seconds = [value / 1000 for value in found[name]]
        return {"runs": runs, "pass_s": level(seconds), "peak_gib": round(self.peak_bytes[name] / 2**30, 2)}

    def _pass_ms(self, folder: RunFolder) -> float:
        begin = time.perf_counter()
        measure(self._spark, folder, exhibits=())
        return 1000 * (time.perf_counter() - begin)

    def _sample_memory(self, size: int | str) -> None:
        """Keep the highest memory of this process, Java and Spark's Python processes; shared pages count once."""
        own, engines = psutil.Process(), self._processes.values()
        processes = [process for process in own.children(recursive=True) if process not in engines]
        self.peak_bytes[size] = max(self.peak_bytes[size], sum(map(_memory_bytes, [own, *processes])))


@contextmanager
def _repeatedly(call: Callable[[], None]) -> Iterator[None]:
    """Call every few tenths of a second, in a thread."""
    ended = threading.Event()

    def call_until_ended() -> None:
        while not ended.wait(_SAMPLE_SECONDS):
            call()

    thread = threading.Thread(target=call_until_ended)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _end_if_too_large(process: psutil.Process) -> None:
    with suppress(psutil.Error):
        if process.memory_info().rss > _MEMORY_SHARE * psutil.virtual_memory().total:
            process.kill()


def _memory_bytes(process: psutil.Process) -> int:
    try:
        used = process.memory_full_info()
        return int(getattr(used, "pss", used.rss))
    except psutil.Error:
        return 0


def pipeline_answers(folder: RunFolder) -> Answers:
    """What the measure tables say. The audit names the number of missing or damaged messages in its reason."""
    answers: Answers = {}
    for row in read_table(folder, "audits"):
        answers[row["run"]] = {name: row[name] for name in (*DELIVERY_CLASSES, "sent")}
        for name, text in (("missing", "never recorded as sent"), ("damaged", "another body")):
            number = int(row["reason"].split()[0].replace(",", "")) if text in row["reason"] else 0
            answers[row["run"]][name] = number
    for row in read_table(folder, "run_measures"):
        if row["metric"] == "rate.received" or row["metric"].startswith("latency."):
            answers[row["run"]][row["metric"]] = row["value"]
    return answers


def compare(where: str, expected: Mapping[str, float], found: Mapping[str, float]) -> None:
    """Counts are the same; figures are, but for the last digit of a logarithm or a quotient."""
    for name, value in expected.items():
        # The pipeline does not show how many messages it measured in a run without figures.
        if name.startswith("measured") and name not in found:
            continue
        if name not in found or not isclose(found[name], value, rel_tol=1e-12 if isinstance(value, float) else 0.0):
            raise SystemExit(f"{where}: {name} is {found.get(name)}, not {value}")


def run(about: str) -> None:
    options = arguments(
        about, "at most 10 million messages, within a minute", size="this number of messages",
        runs="measure only passes over this number of small runs",
    )  # fmt: skip
    if options.runs:
        _measure_many_runs([*map(int, options.runs)], options.rounds or 3)
        return
    chosen = options.size or (SMOKE_SIZES if options.smoke else QUICK_SIZES if options.quick else SIZES)
    sizes = sorted(map(int, chosen))
    rounds = options.rounds or 3
    with tempfile.TemporaryDirectory(prefix="mqlab-bench-") as temporary, ExitStack() as stack:
        bench = Bench(stack, Path(temporary), sizes)
        sides = (_SPARK, *bench.engines)
        for side in sides:
            bench.seconds(sizes[0], side)  # the first pass loads and compiles
        # In milliseconds, since rounds are shown without decimals.
        found = {
            size: interleaved({side: partial(_milliseconds, bench, size, side) for side in sides}, rounds)
            for size in sizes
        }
        for size in sizes:
            bench.check(size)
        study_pass_s = bench.study_pass(Path(temporary))
        runs = 3 if options.smoke else 200 if options.quick else 2000
        compaction = bench.compaction(Path(temporary), runs, rounds)
        many = bench.many_runs(Path(temporary), 5 if options.smoke else 200 if options.quick else 10_000, rounds)
    last = sizes[-1]
    results: dict[str, object] = {
        f"spark_over_{engine}": ratio(found[last][_SPARK], found[last][engine])
        for engine in bench.engines if bench.has_answers(last, engine)
    }  # fmt: skip
    if len(sizes) > 1:
        before = [value * last / sizes[-2] for value in found[sizes[-2]][_SPARK]]
        results["growth"] = ratio(found[last][_SPARK], before)
    finish(
        **results,
        messages=last,
        peak_gib=round(bench.peak_bytes[last] / 2**30, 3),
        study_pass_s=round(study_pass_s, 2),
        **compaction,
        many_runs=[many],
        start_s=round(bench.start_s, 2),
        seconds={
            size: {side: round(median(values) / 1000, 2) for side, values in found[size].items()
                   if bench.has_answers(size, side)}
            for size in sizes
        },
        spark_seconds=level([value / 1000 for value in found[last][_SPARK]]),
    )  # fmt: skip


def _measure_many_runs(numbers: list[int], rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="mqlab-bench-") as temporary, ExitStack() as stack:
        bench = Bench(stack, Path(temporary), [])
        found = [bench.many_runs(Path(temporary), number, rounds) for number in numbers]
    finish(many_runs=found)


def _milliseconds(bench: Bench, size: int, side: str) -> float:
    return 1000 * bench.seconds(size, side)
