"""Following a run folder: Structured Streaming over the event files, while runs go on.

The stream has the names of new files. When a run has ended, its events are counted as `measure` does, once; so the
measures at the end are the same, and are there soon. Of the run that goes on, `running_run` tells what it can.

Each run's counts are a file, which replaces a former one: a batch that Spark runs again, after a worker or the query
was killed, changes nothing.
"""

import atexit
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mqlab.events.checksums import EventFile
from mqlab.events.folder import FOLLOW_PREFIX, RunFolder, run_name
from mqlab.events.sources import EventSources, examine_events
from mqlab.json_values import JsonObject
from mqlab.pipeline.counts.run_source import read_saved_counts
from mqlab.pipeline.following.running_run import RunningRun, RunProgress, by_run
from mqlab.pipeline.measure import count_runs, measure, measure_runs
from mqlab.pipeline.measure_tables import NotMeasuredError, check_measures
from mqlab.study import Exhibit

_INTERVAL_S: Final = 3.0
# Files in one batch: a folder that is followed late has many.
_MAX_FILES: Final = 2000
# How often a query that fails is started again without a batch that succeeds in between.
_MOST_FAILURES: Final = 3


@dataclass(frozen=True)
class EndedRun:
    """A run that has ended: its row of the table `audits`, and its rates and durations by metric."""

    audit: JsonObject
    figures: dict[str, float]


@dataclass
class FollowState:
    """The last batch that was counted, and the run that goes on."""

    batch: int = -1
    running: RunningRun | None = None
    failures: int = 0
    ended: set[int] = field(default_factory=set)


class Follower:
    """Follows a run folder to its end. `on_ended` and `on_progress` are called from another thread."""

    def __init__(
        self, spark: SparkSession, folder: RunFolder, on_ended: Callable[[EndedRun], None],
        on_progress: Callable[[RunProgress], None], interval_s: float = _INTERVAL_S,
    ) -> None:  # fmt: skip
        self._spark = spark
        self._folder = folder
        self._on_ended = on_ended
        self._on_progress = on_progress
        self._interval_s = interval_s
        self._lock = ExitStack()
        self._lock.enter_context(folder.events_locked())
        # Agents see it, and write their events every few seconds.
        self._work = Path(tempfile.mkdtemp(prefix=FOLLOW_PREFIX, dir=folder.path))
        self._counts = self._work / "counts"
        self._counts.mkdir()
        atexit.register(self.close)
        self._state = FollowState()
        # How often the query was started again since it had failed.
        self.restarts = 0

    def follow(self) -> None:
        """Return when the runs have come to their end and all events are counted. Raises StreamingQueryException."""
        query = self._start()
        try:
            while True:
                try:
                    # In this order: what is written before the end of the runs is seen.
                    is_over = self._folder.meta().get("finished") is not None
                    if is_over:
                        query.processAllAvailable()
                        return
                    query.awaitTermination(1)
                except StreamingQueryException:
                    self._state.failures += 1
                    if self._state.failures > _MOST_FAILURES:
                        raise
                    self.restarts += 1
                    query = self._start()
        finally:
            query.stop()

    def measure(self, exhibits: Sequence[Exhibit] | None = None) -> EventSources:
        """Write the measures of the folder from the counts, unless another process has written them meanwhile."""
        with suppress(NotMeasuredError):
            check_measures(self._folder)
            return examine_events(self._folder)
        return measure(self._spark, self._folder, exhibits=exhibits, counts_of_runs=self._saved_counts)

    def close(self) -> None:
        shutil.rmtree(self._work, ignore_errors=True)
        self._lock.close()

    def _start(self) -> StreamingQuery:
        files = (
            self._spark.readStream.schema("run INT")
            .option("maxFilesPerTrigger", _MAX_FILES)
            # A run that is played again has other files.
            .option("ignoreMissingFiles", "true")
            .parquet(f"{self._folder.events.resolve()}/*")
            .select("_metadata.file_path")
        )
        return (
            files.writeStream.foreachBatch(self._count_batch)
            .option("checkpointLocation", str(self._work / "checkpoint"))
            .trigger(processingTime=f"{round(self._interval_s * 1000)} milliseconds")
            .start()
        )

    def _count_batch(self, rows: DataFrame, batch: int) -> None:
        if batch <= self._state.batch:
            return
        paths = [Path(unquote(urlsplit(row.file_path).path)) for row in rows.distinct().collect()]
        runs = by_run(path for path in paths if path.exists())
        self._count_ended({run for run, files in runs.items() if "runs" in files})
        self._count_running(runs)
        self._state.batch, self._state.failures = batch, 0

    def _count_ended(self, runs: set[int]) -> None:
        if not runs:
            return
        sources = examine_events(self._folder, runs)
        tables = measure_runs(self._spark, sources)
        for run in runs:
            sharing = pa.array(sources.sharing.get(run, [run]), pa.int32())
            of_run = tables["counts"].filter(pc.is_in(tables["counts"]["run"], sharing))
            pq.write_table(of_run, self._counts_file(run))
        figures = tables["figures"].to_pylist()
        for audit in sorted(tables["audits"].to_pylist(), key=lambda row: row["run"]):
            self._on_ended(EndedRun(audit, {r["metric"]: r["value"] for r in figures if r["run"] == audit["run"]}))
        self._state.ended |= runs

    def _count_running(self, runs: dict[int, dict[str, list[str]]]) -> None:
        """Runs are played one after the other: the last one goes on, unless it has ended."""
        newest = max(runs, default=0)
        running = self._state.running
        if running is not None and (running.run in self._state.ended or running.run < newest):
            running = self._state.running = None
        if newest and newest not in self._state.ended:
            running = running or RunningRun(newest)
            running.add(self._spark, runs[newest])
            self._state.running = running
            self._on_progress(running.progress)

    def _saved_counts(self, sources: EventSources) -> DataFrame:
        """The counts of the runs that are readable; those that the stream has not seen are counted now."""
        runs = {file.run for file in sources.readable("runs") if file.run not in sources.damaged}
        saved = [path for run in runs if run is not None and (path := self._counts_file(run)).exists()]
        counts = read_saved_counts(self._spark, saved)
        if missing := runs - {EventFile(path, "").run for path in saved}:
            counts = counts.unionByName(count_runs(self._spark, sources.of_runs(missing)), allowMissingColumns=True)
        return counts

    def _counts_file(self, run: int) -> Path:
        return self._counts / f"{run_name(run)}.parquet"
