"""The lab for its own tests: a conductor with real agents and a real broker, and a recount of what they recorded."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import uvloop

from mqlab.events.folder import RunFolder
from mqlab.events.schema import TABLES
from mqlab.runner.checks.warmup import Warmup
from mqlab.runner.conductor import Conductor, Progress, RunPlan
from mqlab.runner.resume import KeptRun
from mqlab.runner.rounds import Budget
from mqlab.study import Claim, Point, load_study
from mqlab.study.capacity.search import RunRequest
from mqlab.systems import System, system
from table_rows import Row

# No test may wait for longer, whatever is broken.
PATIENCE = 1800.0
# The tests compute only with columns of whole numbers.
Column = npt.NDArray[np.int64]
Watch = Callable[[Progress], None]


def ignore(_: Progress) -> None:
    """Watch a run and do nothing."""


def conducted(
    parent: Path, points: Sequence[Point], *, systems: Sequence[str | System] = ("embedded",), agents: int = 2,
    watch: Watch = ignore, patience: float = PATIENCE, interrupt_in: str = "",
    warm_up: bool = False, watch_noise: bool = False, budget: Budget | None = None, restart: bool = False,
    search: Callable[[], Sequence[RunRequest]] | None = None, resumed: RunFolder | None = None,
    kept: Sequence[KeptRun] | None = None, data: Path | None = None,
    before_runs: Callable[[], Awaitable[None]] | None = None, claims: Sequence[Claim] = (),
) -> RunFolder:  # fmt: skip
    """Plays the points; cancelled, as Ctrl-C does it, soon after the phase `interrupt_in` has begun.

    `resumed`: the run folder of an interrupted run, with the runs that are `kept`. Whatever was started is gone
    afterwards, or it is an error.
    """
    folder = resumed or RunFolder.create(parent, "test")
    chosen = [system(one) if isinstance(one, str) else one for one in systems]
    study = replace(load_study("jms-four-brokers"), claims=tuple(claims))
    order = RunPlan(
        study, "quick", points, chosen, agents, "the command", watch_noise, budget, restart,
        search=search, kept=kept, data=data, before_runs=before_runs,
    )  # fmt: skip

    async def conduct() -> None:
        def seen(progress: Progress) -> None:
            watch(progress)
            if progress.phase == interrupt_in:
                asyncio.get_running_loop().call_later(0.1, work.cancel)

        work = asyncio.ensure_future(Conductor(order, folder, seen).conduct())
        async with asyncio.timeout(patience):
            await work

    try:
        # What the drivers reach is found for every study anew, and some systems are played with before they count: all
        # that takes longer than these runs.
        with ExitStack() as patched:
            patched.enter_context(patch("mqlab.runner.conductor.combinations", lambda *_: []))
            if not warm_up:
                patched.enter_context(patch.object(Warmup, "is_due", lambda *_: False))
            uvloop.run(conduct())
    finally:
        left = [*agents_running(), *brokers_running()]
        for process in left:
            process.kill()
        assert left == [], "processes were left behind"
    return folder


class Once:
    """A watcher that does something at one moment of the first run."""

    def __init__(self, phase: str, do: Callable[[], None]) -> None:
        self._phase = phase
        self._do = do
        self.done = False

    def __call__(self, progress: Progress) -> None:
        if not self.done and progress.phase == self._phase:
            self.done = True
            self._do()


def agents_running() -> list[psutil.Process]:
    """Ours, in the order in which they were started."""
    return _children("mqlab.runner.agents.process")


def brokers_running() -> list[psutil.Process]:
    return _children("broker")


def _children(word: str) -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children():
        try:
            # The command line of a supervisor contains that of its process.
            is_supervisor = "supervisor.py" in " ".join(child.cmdline()[:4])
            if word in child.cmdline() and not is_supervisor and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
        except psutil.Error:
            continue
    return sorted(found, key=lambda child: (child.create_time(), child.pid))


def table(folder: RunFolder, name: str) -> pa.Table:
    files = sorted((folder.events / name).glob("*.parquet"))
    return pa.concat_tables([TABLES[name].empty_table(), *(pq.read_table(file) for file in files)])


def rows(folder: RunFolder, name: str, **having: object) -> list[Row]:
    found: list[Row] = _where(table(folder, name), having).to_pylist()
    return found


def _where(found: pa.Table, having: dict[str, object]) -> pa.Table:
    for column, value in having.items():
        found = found.filter(pc.equal(found[column], value))
    return found


def columns(folder: RunFolder, name: str, **having: object) -> dict[str, Column]:
    """As numpy arrays; a null is -1."""
    found = _where(table(folder, name), having)
    return {column: _array(found[column]) for column in found.column_names}


def _array(column: pa.ChunkedArray) -> Column:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    values: Column = (column.fill_null(-1) if column.null_count else column).to_numpy()
    return values


@dataclass(frozen=True)
class Recount:
    """What the events say of one run, counted without the pipeline."""

    sent: int
    received: int
    sent_in_measure: int
    received_in_measure: int
    round_trips_in_measure: int

    @classmethod
    def of(cls, folder: RunFolder, run: int) -> "Recount":
        sends, receipts = columns(folder, "sends", run=run), columns(folder, "receipts", run=run)
        replies = columns(folder, "round_trips", run=run)["t_received"]
        (measure,) = rows(folder, "phases", run=run, phase="measure")

        def within(counts: Column, times: Column) -> int:
            return int(counts[(times >= measure["t_start"]) & (times < measure["t_end"])].sum())

        return cls(
            int(sends["count"].sum()),
            int(receipts["count"].sum()),
            within(sends["count"], sends["t_sent"]),
            within(receipts["count"], receipts["t_received"]),
            within(np.ones(len(replies), dtype=int), replies),
        )

    def check_counts(self, run: Row) -> None:
        """What the agents counted by themselves is what the events show."""
        assert run["counted_sent"] == self.sent_in_measure
        assert run["counted_received"] == self.received_in_measure
        assert run["counted_round_trips"] == self.round_trips_in_measure


def check_delivery(folder: RunFolder, run: int, size: int) -> int:
    """Every message to every subscription exactly once, in the order of its producer. Returns how many were sent."""
    sends, receipts = columns(folder, "sends", run=run), columns(folder, "receipts", run=run)
    consumers = rows(folder, "roles", run=run, role="consumer")
    subscription = {role["number"]: role["subscription"] for role in consumers}
    assert (sends["bytes"] == size * sends["count"]).all()
    assert (receipts["bytes"] == size * receipts["count"]).all()
    assert not receipts["redelivered"].any()
    sent = {}
    for destination, producer in _pairs(sends, "destination", "producer"):
        mine = (sends["destination"] == destination) & (sends["producer"] == producer)
        sent[destination, producer] = _tiled(sends["first_seq"][mine], sends["count"][mine])
    for role in consumers:
        _check_order(receipts, role["number"])
    got = {}
    owner = np.array([subscription[number] for number in receipts["consumer"]])
    for destination, producer in sent:
        for one in {r["subscription"] for r in consumers if r["destination"] == destination}:
            mine = (receipts["destination"] == destination) & (receipts["producer"] == producer) & (owner == one)
            got[destination, producer, one] = _tiled(receipts["first_seq"][mine], receipts["count"][mine])
    assert {(d, p, s): sent[d, p] for d, p, s in got} == got
    assert sum(got.values()) == receipts["count"].sum(), "nothing came that was not sent"
    return sum(sent.values())


def _pairs(found: dict[str, Column], *names: str) -> set[tuple[int, ...]]:
    return set(zip(*(found[name].tolist() for name in names), strict=True))


def _tiled(firsts: Column, counts: Column) -> int:
    """The ranges lie one after the other from 0 on, without a gap and without an overlap. Returns where they end."""
    order = np.argsort(firsts, kind="stable")
    ends = np.cumsum(counts[order])
    assert (firsts[order] == np.concatenate(([0], ends[:-1]))).all()
    return int(ends[-1])


def _check_order(receipts: dict[str, Column], consumer: int) -> None:
    mine = receipts["consumer"] == consumer
    order = np.argsort(receipts["ordinal"][mine])
    assert (receipts["ordinal"][mine][order] == np.arange(mine.sum())).all()
    for producer in set(receipts["producer"][mine].tolist()):
        firsts = receipts["first_seq"][mine][order][receipts["producer"][mine][order] == producer]
        assert (np.diff(firsts) > 0).all()
    assert (np.diff(receipts["t_received"][mine][order]) >= 0).all()
