"""The run that goes on: what its events so far say. Its exact counts follow when it has ended.

Every batch of new files adds to the counts. A latency needs a send and its receipt, which may be in files of different
batches: each batch of receipts is matched with the sends of the batches around it, one batch later. A message that
waited longer than that has no latency here: those are counted, since the percentiles lack just the longest ones. So the
state is a histogram, the ranges of `running_audit` and the names of a few files, however long the run is.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from mqlab.events.compacted import runs_of_name
from mqlab.events.sources import runs_in
from mqlab.pipeline.counts.run_source import EventPartition, ordered_counts, read_files, read_partitions
from mqlab.pipeline.counts.seen_ranges import read_ranges
from mqlab.pipeline.following.running_audit import AuditSoFar, RunningAudit
from mqlab.pipeline.kernels.count_keys import SLOTS_A_SECOND
from mqlab.pipeline.kernels.histogram import percentile_s
from mqlab.pipeline.kernels.run_events import NEVER

# Batches of sends that are matched with receipts: those before them, of the same time, and after them.
_SENDS_KEPT: Final = 4
# The rate is that of the last seconds.
_RATE_SLOTS: Final = 10 * SLOTS_A_SECOND


@dataclass(frozen=True)
class RunProgress:
    """The counts of a run so far, in messages; `rate` is that of receipts, or of round trips, a second.

    `p50` and `p99` are seconds, of `timed` messages: from the send or the request to the receipt. None: not known yet.
    `untimed` messages were received, and their sends are not among those of the last batches.
    """

    run: int
    sent: int
    received: int
    rate: float | None
    timed: int
    p50: float | None
    p99: float | None
    untimed: int = 0
    audit: AuditSoFar | None = None


@dataclass
class RunningRun:
    run: int
    sent: int = 0
    received: int = 0
    untimed: int = 0
    _audit: RunningAudit = field(default_factory=RunningAudit)
    _slots: Counter[int] = field(default_factory=Counter)
    _buckets: Counter[int] = field(default_factory=Counter)
    _has_round_trips: bool = False
    _sends: deque[list[str]] = field(default_factory=lambda: deque(maxlen=_SENDS_KEPT))
    _receipts: list[str] = field(default_factory=list)
    _small: dict[str, list[str]] = field(default_factory=lambda: {"roles": [], "clocks": []})

    def add(self, spark: SparkSession, files: dict[str, list[str]]) -> None:
        """Count the events of new files, by table."""
        for table in self._small:
            # Spark runs a batch again that has failed.
            self._small[table] = [*dict.fromkeys([*self._small[table], *files.get(table, [])])]
        new = {table: files.get(table, []) for table in ("sends", "receipts", "round_trips")}
        sends = [*(file for batch in self._sends for file in batch), *new["sends"]]
        counts = self._count(spark, new)
        deliveries = self._count(spark, {"sends": sends, "receipts": self._receipts})["deliveries"]
        is_audited = self._audit.is_known and (new["sends"] or new["receipts"])
        ranges = read_ranges(spark, new["sends"], new["receipts"]) if is_audited else {}
        roles = read_files("roles", [(path, None) for path in self._small["roles"]])
        # From here on nothing fails: a batch that Spark runs again is counted once.
        self._sends.append(new["sends"])
        self._receipts = new["receipts"]
        activity = counts["activity"]
        self.sent += sum(activity["sent"].to_pylist())
        received = sum(activity["received"].to_pylist())
        self.received += received
        if is_audited:
            self._audit.add(ranges, roles, received)
        for slot, received in zip(activity["slot"].to_pylist(), activity["received"].to_pylist(), strict=True):
            self._slots[slot] += received
        for slot in sorted(self._slots)[:-_RATE_SLOTS]:
            del self._slots[slot]
        round_trips = counts["round trips"]
        self._has_round_trips = self._has_round_trips or bool(len(round_trips))
        timed = round_trips if self._has_round_trips else deliveries
        if not self._small["clocks"]:
            return  # agents on other machines: their clocks are known at the end of the run
        for bucket, messages in zip(timed["bucket"].to_pylist(), timed["messages"].to_pylist(), strict=True):
            if bucket is not None:
                self._buckets[bucket] += messages
        self.untimed += sum(timed["unexpected"].to_pylist()) if timed is deliveries else 0

    def _count(self, spark: SparkSession, files: dict[str, list[str]]) -> dict[str, pa.Table]:
        # The measure phase is not known before the end: everything counts.
        partition = EventPartition(windows={self.run: [0, 0, int(NEVER)]})
        partition.files |= {table: [(path, None) for path in of] for table, of in (self._small | files).items()}
        return ordered_counts(read_partitions(spark, [partition]).toArrow())

    @property
    def progress(self) -> RunProgress:
        slots = sorted(self._slots)
        seconds = (slots[-1] - slots[0] + 1) / SLOTS_A_SECOND if slots else 0.0
        rate = sum(self._slots.values()) / seconds if seconds else None
        p50, p99 = (percentile_s(self._buckets, per_mille) for per_mille in (500, 990))
        return RunProgress(
            self.run, self.sent, self.received, rate, sum(self._buckets.values()), p50, p99, self.untimed,
            self._audit.so_far,
        )  # fmt: skip


def by_run(paths: Iterable[Path]) -> dict[int, dict[str, list[str]]]:
    """Event files by run and table. Compacted files have runs that have ended: that of the table `runs` names them."""
    runs: dict[int, dict[str, list[str]]] = {}
    for path in sorted(paths):
        is_needed = path.parent.name == "runs" or runs_of_name(path.name) is None
        for run in runs_in(path) if is_needed else ():
            runs.setdefault(run, {}).setdefault(path.parent.name, []).append(str(path))
    return runs
