"""The audit of a run that goes on: batch by batch it counts what is true of every message, and its state is bounded."""

import pickle
from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mqlab.events.folder import RunFolder, run_name
from mqlab.events.recorder import event_table
from mqlab.pipeline.counts import seen_ranges
from mqlab.pipeline.counts.run_source import read_files
from mqlab.pipeline.following.running_audit import RunningAudit
from mqlab.pipeline.following.running_run import RunningRun, by_run
from mqlab.pipeline.kernels.count_keys import DELIVERY_CLASSES
from mqlab.pipeline.kernels.run_deliveries import run_deliveries
from mqlab.pipeline.kernels.run_events import NEEDED
from pipeline.synthetic_runs import MIDDLE, Run, write

MS = 1_000_000
EVERYTHING = slice(None)


def tables_of(run: Run, sends: slice, receipts: slice) -> dict[str, pa.Table]:
    """What agents have written between two moments, with the roles."""
    rows = {**run.tables(), "sends": run.sends[sends], "receipts": run.receipts[receipts]}
    events = {}
    for table, names in NEEDED.items():
        whole = event_table(table, [{"run": run.number, **row} for row in rows[table]])
        events[table] = whole.select(names)
    return events


def add(audit: RunningAudit, events: dict[str, pa.Table]) -> None:
    ranges = dict(seen_ranges.ranges_by_kind(events["sends"], events["receipts"]))
    audit.add(ranges, events["roles"], sum(events["receipts"]["count"].to_pylist()))


def random_run(chance: Random, *, copies: bool) -> Run:
    """Two producers and two subscriptions of two consumers, with losses, changes of order, and copies."""
    run = Run(1, consumers=(0, 0, 1, 1), producers=2)
    pending: dict[int, list[tuple[int, int, int]]] = {0: [], 1: []}
    ends = [0, 0]
    for _ in range(60):
        producer, count = chance.randrange(2), chance.randint(1, 9)
        run.send(ends[producer], count, producer=producer, outcome=chance.choice(("confirmed", "unknown")))
        for subscription, waiting in pending.items():
            if chance.random() < 0.9:
                waiting.append((producer, ends[producer], count))
            if chance.random() < 0.1:
                chance.shuffle(waiting)
            for arrived, first, messages in waiting[: chance.randint(0, 2)]:
                consumer = 2 * subscription + chance.randrange(2)
                marked = copies and chance.random() < 0.1
                run.receive(first, messages, consumer=consumer, producer=arrived, redelivered=marked)
                if not copies or chance.random() < 0.9:
                    waiting.remove((arrived, first, messages))
        ends[producer] += count
    return run


def truth(run: Run) -> tuple[int, int]:
    """Message by message: those not received, and copies of those received before."""
    sent, received, again = set(), set(), 0
    for row in run.sends:
        sent |= {(row["producer"], row["first_seq"] + place) for place in range(row["count"])}
    for row in run.receipts:
        for place in range(row["count"]):
            message = run.consumers[row["consumer"]], row["producer"], row["first_seq"] + place
            again += message in received
            received.add(message)
    expected = {(number, *message) for number in set(run.consumers) for message in sent}
    return len(expected - received), again


def classes(run: Run) -> Counter[str]:
    """The delivery classes of the whole run."""
    total: Counter[str] = Counter()
    for row in run_deliveries(tables_of(run, EVERYTHING, EVERYTHING), {})["deliveries"].to_pylist():
        total.update({name: row[name] for name in DELIVERY_CLASSES})
    return total


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_it_counts_every_message(seed: int, copies: bool) -> None:
    chance = Random(seed)
    run, audit, sends, receipts = random_run(chance, copies=copies), RunningAudit(), 0, 0
    while sends < len(run.sends) or receipts < len(run.receipts):
        new_sends, new_receipts = sends + chance.randint(0, 9), receipts + chance.randint(0, 9)
        add(audit, tables_of(run, slice(sends, new_sends), slice(receipts, new_receipts)))
        sends, receipts = new_sends, new_receipts
    so_far = audit.so_far
    assert so_far is not None
    assert (so_far.not_received, so_far.received_again) == truth(run)
    # Of copies, the batches decide which one was the first.
    assert copies or so_far.out_of_order == classes(run)["out_of_order"] > 0


def test_it_ends_with_the_audit_of_the_run() -> None:
    """Lost, duplicated and out of order, in a run without redeliveries."""
    run = Run(1)
    for first in range(0, 1000, 10):
        run.send(first, 10)
    for first in (*range(0, 500, 10), 300, *range(520, 1000, 10), 500):
        run.receive(first, 10)
    audit = RunningAudit()
    for number in range(100):
        part = slice(number, number + 1)
        add(audit, tables_of(run, part, part))
    so_far = audit.so_far
    assert so_far is not None
    assert [classes(run)[name] for name in ("lost", "duplicated", "out_of_order")] == [10, 10, 10]
    assert (so_far.not_received, so_far.received_again, so_far.out_of_order) == (10, 10, 10)


def test_its_state_does_not_grow_with_the_run() -> None:
    """Messages wait for longer and longer, and a few are lost: one range more for each gap, and no more."""
    audit, sizes = RunningAudit(), []
    for batch in range(500):
        run = Run(1).send(100 * batch, 100).receive(90 * batch, 90)
        add(audit, tables_of(run, EVERYTHING, EVERYTHING))
        sizes.append(len(pickle.dumps(audit)))
    assert audit.kept == 3  # sent, received, and the highest message of the consumer
    assert max(sizes) - sizes[0] < 32


def test_a_wild_order_has_no_audit_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqlab.pipeline.following.running_audit.MOST_RANGES", 50)
    audit = RunningAudit()
    for batch in range(100):
        add(audit, tables_of(Run(1).send(batch, 1).receive(2 * batch, 1), EVERYTHING, EVERYTHING))
    assert (audit.so_far, audit.kept) == (None, 0)
    # The task that reads the files gives up as well.
    audit = RunningAudit()
    audit.add(None, read_files("roles", ()), 0)
    assert audit.so_far is None


def write_batch(folder: RunFolder, run: Run, batch: int, tables: tuple[str, ...]) -> dict[str, list[str]]:
    """The files of a batch by table. All names are equally long."""
    name = f"{run_name(run.number)}-agent-1-{batch + 10}"
    for table in tables:
        rows = [{"run": run.number, **row} for row in run.tables()[table]]
        folder.write_events(table, name, event_table(table, rows))
    return by_run(folder.events.glob(f"*/{name}*"))[run.number]


def test_what_is_kept_of_a_run_is_bounded_and_late_messages_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    """Half of the messages wait for six batches: longer than their sends are kept."""
    folder, late = write(tmp_path / "run", []), 6
    batches, sizes, running = 12, [], RunningRun(1)
    for batch in range(batches):
        now = MIDDLE + 3000 * MS * batch
        run = Run(1).send(10 * batch, 10, now).receive(10 * batch, 5, now + MS)
        if batch >= late:
            run.receive(10 * (batch - late) + 5, 5, now + 2 * MS)
        tables = ("sends", "receipts", *(("roles", "clocks") if batch == 0 else ()))
        running.add(spark, write_batch(folder, run, batch, tables))
        sizes.append(len(pickle.dumps(running)))
    progress = running.progress
    assert (progress.sent, progress.received) == (10 * batches, 5 * batches + 5 * (batches - late))
    # The receipts of the last batch are matched with the next one.
    assert (progress.timed, progress.untimed) == (5 * (batches - 1), 5 * (batches - late - 1))
    assert progress.p99 == pytest.approx(0.001, rel=0.002)
    assert progress.audit is not None
    assert (progress.audit.not_received, progress.audit.out_of_order) == (5 * late, 5 * (batches - late))
    assert progress.audit.received_again == 0
    # A new slot of the rate is less than the name of a file, which is the least that an unbounded state would add.
    assert max(sizes[-4:]) - min(sizes[-4:]) < len(str(folder.path))
