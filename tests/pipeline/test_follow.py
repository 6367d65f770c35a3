"""Following a run folder: the figures at the end are those of `measure`, whatever is killed on the way."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import psutil
import pytest
from pyspark.sql import SparkSession

from mqlab.events.folder import RunFolder, run_name
from mqlab.events.recorder import event_table
from mqlab.pipeline.following.follower import EndedRun, Follower
from mqlab.pipeline.following.running_run import RunProgress
from mqlab.pipeline.measure import measure
from mqlab.pipeline.measure_tables import read_table
from mqlab.pipeline.schema import TABLES
from pipeline.synthetic_runs import MIDDLE, Run, write
from process_helpers import commands_with

T = TypeVar("T")

MS = 1_000_000
EARLY, LATE = (
    ("roles", "clocks", "sends", "receipts", "round_trips"),
    ("phases", "machine", "travel", "samples", "runs"),
)


def one_run(number: int) -> Run:
    run = Run(number, repetition=number)
    for first in range(0, 100, 10):
        run.send(first, 10, MIDDLE + first * MS)
        if not (number == 2 and first == 50):  # ten messages of run 2 are lost
            run.receive(first, 10, MIDDLE + (first + 3) * MS)
    return run


def record(folder: RunFolder, run: Run, tables: tuple[str, ...], part: int = 1, parts: slice = slice(None)) -> None:
    """Write these tables as an agent does: files have the name of their run."""
    for table in tables:
        if rows := run.tables()[table][parts]:
            named = f"{run_name(run.number)}-agent-1-{part}"
            folder.write_events(table, named, event_table(table, [{"run": run.number, **row} for row in rows]))


def finish(folder: RunFolder) -> None:
    folder.write_meta({**folder.meta(), "finished": "2026-01-01T12:00:00+00:00"})


def contents(folder: RunFolder) -> dict[str, bytes]:
    return {table: (folder.measures / table / "part.parquet").read_bytes() for table in TABLES}


class Followed:
    """A run folder that a thread follows, and what it told."""

    def __init__(self, spark: SparkSession, folder: RunFolder) -> None:
        self.folder = folder
        self.ended: list[EndedRun] = []
        self.progress: list[RunProgress] = []
        self._told = threading.Condition()
        self.follower = Follower(spark, folder, self._tell(self.ended), self._tell(self.progress), interval_s=0.1)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _tell(self, events: list[T]) -> Callable[[T], None]:
        def tell(event: T) -> None:
            with self._told:
                events.append(event)
                self._told.notify_all()

        return tell

    def _follow(self) -> None:
        try:
            self.follower.follow()
        except BaseException as error:
            self._error = error
            with self._told:
                self._told.notify_all()

    def wait_until(self, condition: Callable[[], object]) -> None:
        with self._told:
            assert self._told.wait_for(lambda: condition() or self._error, 600)
        assert self._error is None, self._error

    def end(self) -> None:
        """Wait for the end, and write the measures."""
        finish(self.folder)
        self._thread.join(600)
        assert not self._thread.is_alive()
        assert self._error is None, self._error
        self.follower.measure(exhibits=())


@contextmanager
def following(spark: SparkSession, path: Path) -> Iterator[Followed]:
    folder = write(path, [])
    for table in (*EARLY, *LATE):
        (folder.events / table).mkdir(exist_ok=True)
    assert not folder.is_followed
    followed = Followed(spark, folder)
    try:
        yield followed
    finally:
        finish(folder)
        followed.follower.close()
    assert not folder.is_followed


def kill_python_workers(followed: Followed) -> None:
    """Kill the Python workers of Spark, again and again until the query has failed and was started again."""
    while not followed.follower.restarts:
        for worker in commands_with("pyspark.daemon", psutil.Process().children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                worker.kill()
        time.sleep(0.005)


def test_figures_come_while_runs_go_on_and_are_those_of_measure(spark: SparkSession, tmp_path: Path) -> None:
    runs = [one_run(number) for number in (1, 2, 3)]
    with following(spark, tmp_path / "run") as followed:
        folder = followed.folder
        assert folder.is_followed
        # The first half of the events of run 1, then the rest, then its end.
        record(folder, runs[0], ("roles", "clocks"))
        record(folder, runs[0], ("sends", "receipts"), 1, slice(0, 5))
        followed.wait_until(lambda: followed.progress)
        assert (followed.progress[-1].run, followed.progress[-1].sent, followed.progress[-1].received) == (1, 50, 50)
        record(folder, runs[0], ("sends", "receipts"), 2, slice(5, None))
        followed.wait_until(lambda: followed.progress[-1].timed == 50)
        assert (followed.progress[-1].sent, followed.progress[-1].received) == (100, 100)
        assert followed.progress[-1].p99 == pytest.approx(0.003, rel=0.002)
        # The workers of Spark vanish while they count runs that have ended.
        record(folder, runs[0], LATE)
        for run in runs[1:]:
            record(folder, run, (*EARLY, *LATE))
        kill_python_workers(followed)
        followed.wait_until(lambda: len(followed.ended) == 3)
        assert [run.audit["status"] for run in followed.ended] == ["clean", "failed", "clean"]
        assert followed.ended[0].figures["rate.received"] == pytest.approx(50.0)
        # Run 3 is played again, and is longer.
        folder.remove_events(3)
        record(folder, one_run(3).send(100, 7, MIDDLE).receive(100, 7, MIDDLE + MS), (*EARLY, *LATE))
        followed.end()
        audits = [tuple(run.audit[name] for name in ("run", "sent", "lost")) for run in followed.ended]
        assert audits == [(1, 100, 0), (2, 100, 10), (3, 100, 0), (3, 107, 0)]
        streamed = contents(folder)
    measure(spark, folder, exhibits=())
    assert contents(folder) == streamed
    assert [audit["sent"] for audit in read_table(folder, "audits")] == [100, 100, 107]
