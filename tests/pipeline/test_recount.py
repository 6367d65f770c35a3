"""Random runs with ranges over each other in every way: the pipeline must agree with a plain recount of each."""

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mqlab.events.schema import CONFIRMED, FAILED, ROLLED_BACK, UNKNOWN
from mqlab.pipeline.fates import CLASSES
from mqlab.pipeline.measure import TABLES, measure, read
from tests.pipeline.made_up import BEGIN, END, SECOND, Run, write
from tests.pipeline.recount import percentile, recount

BLOCK = 1 << 22
SEED = 20_26


def random_run(number: int, chance: random.Random) -> Run:
    """Half of the runs are as they should be, but for marked copies; the others have everything wrong."""
    topic, consumers = chance.random() < 0.5, chance.randint(1, 3)
    run = Run(
        number,
        scenario=f"S{number % 7}",
        repetition=number // 7,
        consumers=tuple(range(consumers)) if topic else (0,) * consumers,
        producers=chance.randint(1, 3),
        destinations=chance.randint(1, 2),
        offsets={1: chance.randint(-SECOND, SECOND), 2: chance.randint(-SECOND, SECOND)},
    )
    orderly = number % 2 == 0
    for producer in range(run.producers):
        for destination in range(run.destinations):
            base = chance.choice((0, BLOCK - 9, 5 * BLOCK - 20))
            length = chance.randint(5, 60)
            for first, count in _pieces(base, length, chance):
                outcome = CONFIRMED if orderly else chance.choices(
                    (CONFIRMED, UNKNOWN, FAILED, ROLLED_BACK), (8, 2, 1, 1)
                )[0]  # fmt: skip
                planned = chance.randint(BEGIN, END) - run.offsets[1]
                run.send(first, count, planned, outcome, producer=producer, destination=destination)
                if chance.random() < 0.2:
                    run.send(first, count, planned + 77, UNKNOWN, producer=producer, destination=destination)
            _deliver(run, producer, destination, base, length, orderly, chance)
    return run


def _deliver(
    run: Run, producer: int, destination: int, base: int, length: int, orderly: bool, chance: random.Random
) -> None:
    for subscription in set(run.consumers):
        members = [number for number, at in enumerate(run.consumers) if at == subscription]
        pieces = list(_pieces(base, length, chance))
        if not orderly:
            pieces = [piece for piece in pieces if chance.random() < 0.95]
            pieces += [(base + chance.randint(0, length), chance.randint(1, 9)) for _ in range(chance.randint(0, 3))]
            if chance.random() < 0.5:
                chance.shuffle(pieces)
        for first, count in pieces:
            place = {"consumer": chance.choice(members), "producer": producer, "destination": destination}
            at = chance.randint(BEGIN, END + SECOND) - run.offsets[2]
            run.receive(first, count, at, not orderly and chance.random() < 0.15, **place)
            if chance.random() < 0.2:
                again = chance.randint(first, first + count - 1)
                run.receive(again, first + count - again, at + 99, redelivered=True, **place)


def _pieces(base: int, length: int, chance: random.Random) -> list[tuple[int, int]]:
    """A stretch of messages cut anywhere."""
    cuts = sorted({base, base + length, *(base + chance.randint(0, length) for _ in range(chance.randint(0, 12)))})
    return [(first, end - first) for first, end in zip(cuts, cuts[1:], strict=False)]


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    chance = random.Random(SEED)
    return [random_run(number, chance) for number in range(160)]


@pytest.fixture(scope="module")
def found(spark: SparkSession, runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return tables_of(spark, tmp_path_factory.mktemp("random"), runs)


def tables_of(spark: SparkSession, path: Path, runs: list[Run], files: int = 1, seed: int | None = None) -> dict[str, Any]:
    folder = write(path, runs, files, seed)
    measure(spark, folder)
    return {name: read(folder, name) for name in TABLES}


def test_classes_are_those_of_the_recount(runs: list[Run], found: dict[str, Any]) -> None:
    audits = {row["run"]: row for row in found["audits"]}
    seen: set[str] = set()
    for run in runs:
        truth = recount(run)
        row = audits[run.number]
        assert {name: row[name] for name in (*CLASSES, "status")} == {
            name: truth[name] for name in (*CLASSES, "status")
        }, f"run {run.number} of seed {SEED}"
        seen |= {name for name in CLASSES if truth[name]} | {truth["status"]}
    assert seen >= {*CLASSES, "clean", "failed"}, "the random runs leave something untried"


def test_figures_are_those_of_the_recount(runs: list[Run], found: dict[str, Any]) -> None:
    compared = 0
    for run in runs:
        truth = recount(run)
        row = {r["metric"]: r["value"] for r in found["run_measures"] if r["run"] == run.number}
        if truth["status"] != "clean":
            assert row == {}
            continue
        assert row["rate.received"] == truth["received"] / 2
        if latencies := truth["latencies"]:
            assert row["latency.max"] == latencies[-1] / 1e9
            assert row["latency.mean"] == pytest.approx(sum(latencies) / len(latencies) / 1e9, rel=1e-12)
            for name, share in (("p50", 500), ("p90", 900), ("p99", 990), ("p99.9", 999)):
                assert row[f"latency.{name}"] == pytest.approx(percentile(latencies, share), rel=0.002, abs=2e-9)
            compared += 1
    assert compared > 20


@pytest.mark.parametrize(("partitions", "files", "seed"), [(1, 1, 1), (8, 3, 2), (64, 8, 3)])
def test_partitions_and_order_of_the_rows_change_nothing(
    spark: SparkSession, tmp_path: Path, runs: list[Run], found: dict[str, Any], partitions: int, files: int, seed: int
) -> None:
    """To the last digit. The pass with the usual partitions is the run before: so this is also a second run."""
    settings = {
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        again = tables_of(spark, tmp_path, runs, files, seed)
    finally:
        for name, value in before.items():
            spark.conf.set(name, str(value))
    assert again == found
