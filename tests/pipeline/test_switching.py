"""Runs that share their events, since the lab switched between their settings: each has what happened in its slices."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mqlab.events.compaction import compact
from mqlab.events.folder import RunFolder
from mqlab.events.recorder import event_table
from mqlab.events.schema import COMPLETE
from mqlab.events.slices import Switch, slice_edges, total_ns, within
from mqlab.events.sources import EventSources, count_rows, examine_events
from mqlab.pipeline.counts import large_runs, run_source
from mqlab.pipeline.counts.run_partitions import divide
from mqlab.pipeline.ended_run import figures_of
from mqlab.pipeline.measure import differing_counts, measure
from mqlab.pipeline.measure_tables import read_table
from mqlab.pipeline.schema import TABLES
from pipeline.synthetic_runs import BEGIN, MEASURE, SECOND, STOP, Run, write, write_by_run
from table_rows import Tables

MS = SECOND // 1000
SLICE, GUARD, STEP = 200 * MS, 50 * MS, 2 * MS
ROUNDS = 4
COUNTED = ("counted_sent", "counted_received", "counted_round_trips")
# How fast the second setting is, in parts of the first.
RATIO = 0.9


def speed(at: float) -> float:
    """The speed of the machine, which comes and goes over seconds; `at` in seconds."""
    return 1 + 0.3 * math.sin(2 * math.pi * at / 7.3)


def load(run: Run, begins: float, ratio_at: Callable[[int], float], most: int = 1000) -> Run:
    """At each step as many messages as the machine and the setting allow at that moment; `most` at its usual speed."""
    first = 0
    for moment in range(BEGIN, STOP, STEP):
        count = round(most * speed(begins + (moment - BEGIN) / SECOND) * ratio_at(moment))
        run.send(first, count, moment).receive(first, count, moment + MS)
        first += count
    return run


def switched(number: int, repetition: int, begins: float, most: int = 1000) -> Run:
    """Ten slices in turns: A B B A, and so on."""
    run = Run(number, scenario="switched", point="A", repetition=repetition, declared={"switch": 0.2})
    settings = [0, 1, 1, 0, 1, 0, 0, 1, 0, 1]
    for place, setting in enumerate(settings):
        asked = MEASURE + place * SLICE if place else BEGIN
        run.switch(number + setting, asked, MEASURE + place * SLICE + GUARD)

    def ratio_at(moment: int) -> float:
        return (1, RATIO)[settings[max(0, (moment - MEASURE) // SLICE)]]

    load(run, begins, ratio_at, most)
    counts = [_counted(run, number + setting) for setting in (0, 1)]
    run.counted_sent, run.counted_received = counts[0]
    run.sharing = {number + 1: {"point": "B", "counted_sent": counts[1][0], "counted_received": counts[1][1]}}
    return run


def stalled(number: int) -> Run:
    """The second setting came in force only when the load had ended."""
    run = Run(number, scenario="stalled", point="A", declared={"switch": 0.2})
    run.switch(number, BEGIN, MEASURE + GUARD).switch(number + 1, MEASURE + SLICE, STOP + GUARD)
    load(run, 0.0, partial(_constant, 1.0))
    run.counted_sent, run.counted_received = _counted(run, number)
    run.sharing = {number + 1: {"point": "B", "counted_sent": 0, "counted_received": 0}}
    return run


def _counted(run: Run, number: int) -> tuple[int, int]:
    """What happened in the slices of one setting, counted plainly: messages sent and received."""
    slices = [
        (row["t_counted"], following["t_asked"])
        for row, following in zip(run.switches, [*run.switches[1:], {"t_asked": STOP}], strict=True)
        if row["setting_run"] == number
    ]

    def count(rows: list[dict[str, int]], time: str) -> int:
        return sum(row["count"] for row in rows if any(begin <= row[time] < end for begin, end in slices))

    return count(run.sends, "t_sent"), count(run.receipts, "t_received")


def _constant(ratio: float, _: int) -> float:
    return ratio


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    made: list[Run] = []
    for place in range(ROUNDS):
        begins = 11.0 * place
        for later, (name, ratio) in enumerate((("A", 1.0), ("B", RATIO))):
            run = Run(len(made) * 10 + 1, scenario="separate", point=name, repetition=place + 1)
            made.append(load(run, begins + 4 * later, partial(_constant, ratio)))
        made.append(switched(len(made) * 10 + 1, place + 1, begins))
    made.append(stalled(len(made) * 10 + 1))
    made[2].sample("broker", MEASURE + GUARD, cpu_seconds=1.0).sample("broker", MEASURE + SLICE - 1, cpu_seconds=1.075)
    made[2].sample("broker", MEASURE + SLICE + GUARD, cpu_seconds=2.0)
    made[2].sample("broker", MEASURE + 2 * SLICE - 1, cpu_seconds=2.15)
    made[2].operate("Requester0", "put", MEASURE, 10).moved(records=10, messages=10, frames=5, waits=0)
    return made


@pytest.fixture(scope="module")
def tables(spark: SparkSession, runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> Tables:
    folder = write(tmp_path_factory.mktemp("switched"), runs)
    measure(spark, folder, exhibits=())
    assert differing_counts(spark, folder) == []
    return {name: read_table(folder, name) for name in TABLES}


def _rates(tables: Tables, scenario: str) -> dict[tuple[str, int], float]:
    return {
        (row["point"], row["repetition"]): row["value"]
        for row in tables["run_measures"]
        if row["scenario"] == scenario and row["metric"] == "rate.received"
    }


def test_each_setting_has_the_rate_of_its_slices(runs: list[Run], tables: Tables) -> None:
    rates = _rates(tables, "switched")
    assert len(rates) == 2 * ROUNDS
    for run in (run for run in runs if run.scenario == "switched"):
        for place, point in enumerate(("A", "B")):
            _, received = _counted(run, run.number + place)
            assert rates[point, run.repetition] == pytest.approx(received / (5 * (SLICE - GUARD) / SECOND))


def test_each_setting_has_its_percentiles_as_soon_as_the_run_is_over(
    runs: list[Run], tables: Tables, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.events.mkdir(parents=True)
    run = next(run for run in runs if run.scenario == "switched")
    write_by_run(folder, [run])
    values = {
        row["point"]: row["value"]
        for row in tables["run_measures"]
        if row["run"] in (run.number, run.number + 1) and row["metric"] == "latency.p99"
    }
    figures = figures_of(folder, run.number)
    assert [row.faults is None for row in figures] == [False, True]
    found = {row.point: row.percentiles["p99"] for row in figures}
    assert found == {point: pytest.approx(value, rel=0.002) for point, value in values.items()}
    assert found.keys() == {"A", "B"}


def test_a_setting_without_slices_has_no_rate(tables: Tables) -> None:
    assert [point for point, _ in _rates(tables, "stalled")] == ["A"]
    (audit,) = (row for row in tables["audits"] if row["scenario"] == "stalled" and row["point"] == "B")
    assert (audit["status"], audit["reason"]) == ("void", "no message was received in the measure phase")


def test_switching_finds_the_ratio_in_spite_of_the_drift(tables: Tables) -> None:
    errors = {}
    for scenario in ("separate", "switched"):
        rates = _rates(tables, scenario)
        ratios = [rates["B", place] / rates["A", place] for place in range(1, ROUNDS + 1)]
        errors[scenario] = fmean(abs(math.log(ratio / RATIO)) for ratio in ratios)
    assert errors["switched"] < errors["separate"] / 4


def test_the_audit_is_that_of_the_whole_run(runs: list[Run], tables: Tables) -> None:
    audits = {row["run"]: row for row in tables["audits"]}
    for run in (run for run in runs if run.scenario == "switched"):
        both = [audits[run.number + place] for place in (0, 1)]
        assert [row["status"] for row in both] == ["clean", "clean"], [row["reason"] for row in both]
        assert [row["delivered"] for row in both] == [sum(row["count"] for row in run.sends)] * 2


def test_what_slices_do_not_tell_is_not_shown(runs: list[Run], tables: Tables) -> None:
    sharing = {number for run in runs if run.sharing for number in (run.number, *run.sharing)}
    for name in ("paces", "series", "depths", "latency_slots"):
        assert not [row for row in tables[name] if row["run"] in sharing]
    assert not tables["operations"]
    metrics = {row["metric"] for row in tables["run_measures"] if row["run"] in sharing}
    assert {"rate.received", "latency.p50", "cpu.broker", "message.records"} <= metrics
    assert not [metric for metric in metrics if metric.startswith(("rss", "onset", "holds", "frame"))]


def test_the_processor_time_of_a_setting_is_that_within_its_slices(runs: list[Run], tables: Tables) -> None:
    number = runs[2].number
    shares = {row["run"]: row["value"] for row in tables["run_measures"] if row["metric"] == "cpu.broker"}
    assert shares[number] == pytest.approx(50, rel=1e-3)
    assert shares[number + 1] == pytest.approx(100, rel=1e-3)


def test_damage_voids_all_runs_that_share_the_events() -> None:
    run = {"study": "", "scenario": "", "point": "", "system": "", "repetition": 1, "parameters": "{}"}
    rows = [
        {**run, "run": number, "status": "complete", "reason": "", "events_of": events_of}
        for number, events_of in ((1, 1), (2, 1), (3, None))
    ]
    table = event_table("runs", [{**row, **dict.fromkeys(COUNTED, 0)} for row in rows])
    marked = EventSources({}, {1: "damaged"}).mark_damaged(table)
    assert marked["status"].to_pylist() == ["damaged", "damaged", "complete"]


def test_runs_that_are_cut_into_blocks_have_the_same_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = switched(1, 1, 0.0, most=4)
    sources = examine_events(write(tmp_path, [run]))
    switches = [Switch(row["setting_run"], row["t_asked"], row["t_counted"]) for row in run.switches]
    edges = slice_edges(switches, MEASURE, STOP)
    times = {"load_start": BEGIN, "measure_start": MEASURE, "measure_end": STOP}
    windows = pa.Table.from_pylist([{"run": number, "edges": of_run, **times} for number, of_run in edges.items()])
    whole = divide(sources, windows, count_rows(sources))
    monkeypatch.setattr(large_runs, "BLOCK_ROWS", 500)
    monkeypatch.setattr(large_runs, "SPLIT_ROWS", 500)
    plan = large_runs.LargeRuns(sources, windows)
    splits = [counts for split in plan.splits() for counts in run_source._count(split)]
    cells, bounds = (pa.concat_tables(table for own, table in splits if own == name) for name in ("cells", "bounds"))
    blocks = plan.blocks(cells, bounds)
    assert len(blocks) > 1
    of_blocks = [*splits, *(counts for block in blocks for counts in run_source._count(block))]
    expected = _added([counts for partition in whole for counts in run_source._count(partition)])
    assert _added(of_blocks) == expected
    assert [expected[number]["received"] for number in (1, 2)] == [_counted(run, number)[1] for number in (1, 2)]


def test_compacted_runs_have_the_same_slices(tmp_path: Path) -> None:
    folder = write(tmp_path, [])
    write_by_run(folder, [switched(1, 1, 0.0, most=4), switched(3, 2, 11.0, most=4)])
    folder.write_meta({"id": "switched", "study": "made-up", "status": COMPLETE})
    windows = pa.Table.from_pylist([
        {"run": number, "load_start": BEGIN, "measure_start": MEASURE, "measure_end": STOP, "edges": [MEASURE, middle]}
        for number, middle in ((1, STOP), (2, MEASURE + SLICE), (3, STOP), (4, MEASURE + SLICE))
    ])  # fmt: skip

    def count() -> dict[int, Counter[str]]:
        sources = examine_events(folder)
        assert sources.sharing == {1: [1, 2], 3: [3, 4]}
        partitions = divide(sources, windows, count_rows(sources))
        return _added([counts for partition in partitions for counts in run_source._count(partition)])

    before = count()
    compact(folder)
    assert folder.is_compacted
    assert count() == before
    assert sorted(before) == [1, 2, 3, 4]


def _added(counts: Sequence[tuple[str, pa.Table]]) -> dict[int, Counter[str]]:
    """What slices and audit count of each run."""
    added: dict[int, Counter[str]] = {}
    for table, rows in counts:
        for row in rows.to_pylist() if table in ("activity", "deliveries") else ():
            of_run = added.setdefault(row["run"], Counter())
            if table == "activity" and row["measured"]:
                of_run.update(sent=row["sent"], received=row["received"])
            if table == "deliveries":
                timed = row["messages"] if row["bucket"] is not None else 0
                of_run.update(delivered=row["delivered"], timed=timed)
    return added


class TestSlices:
    SWITCHES = (Switch(1, 0, 110), Switch(2, 200, 215), Switch(1, 300, 310))

    def test_a_slice_ends_when_the_next_is_asked_for(self) -> None:
        assert slice_edges(self.SWITCHES, 100, 350) == {1: [110, 200, 310, 350], 2: [215, 300]}

    def test_a_slice_that_came_too_late_has_no_length(self) -> None:
        edges = slice_edges([Switch(1, 0, 100), Switch(2, 150, 350)], 100, 300)
        assert edges == {1: [100, 150], 2: [300, 300]}
        assert not within(np.arange(0, 500), edges[2]).any()

    def test_no_moment_counts_twice(self) -> None:
        edges, moments = slice_edges(self.SWITCHES, 100, 350), np.arange(0, 500)
        inside = [within(moments, of_run) for of_run in edges.values()]
        assert not (inside[0] & inside[1]).any()
        assert [int(flags.sum()) for flags in inside] == [total_ns(of_run) for of_run in edges.values()]
