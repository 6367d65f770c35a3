"""The load of a trace, played: destinations, sizes and messages are those of the trace."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqlab.broker.server.trace.records import SCHEMA
from mqlab.study import Phases, load_study
from mqlab.study.load.replay import read_trace, replay_study
from runner.lab import conducted, rows

SECOND = 10**9
# Messages to each queue in each second of the trace.
RECORDED = {"queue:busy": (30, 0, 42), "queue:calm": (10, 0, 14), "queue:rare": (10, 0, 14)}
SIZES = (100, 1000)


def records() -> list[dict[str, object]]:
    return [
        {
            "application": "orders", "connection": 1, "operation": "put", "t": second * SECOND + number, "duration": 5,
            "destination": destination, "messages": 1, "bytes": SIZES[number % 2], "code": "ok", "detail": "",
        }
        for destination, counts in RECORDED.items() for second, count in enumerate(counts) for number in range(count)
    ]  # fmt: skip


def test_a_replay_has_the_messages_of_the_trace(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(records(), schema=SCHEMA), tmp_path / "trace.parquet")
    made = replay_study(read_trace([tmp_path / "trace.parquet"]), "mine")
    for name, text in {**made.files, "study.yaml": made.text}.items():
        (tmp_path / name).write_text(text)
    (point,) = load_study(tmp_path).points("full")
    assert point.phases.measure == 3.0
    # From the beginning of the load, so that all of the trace is in the measure phase, and drained at any speed.
    played = point.model_copy(update={"phases": Phases(warmup=0.0, measure=3.0, drain=60.0)})
    folder = conducted(tmp_path, [played], agents=1)
    (run,) = rows(folder, "runs")
    assert (run["status"], run["reason"]) == ("complete", "")
    for table in ("sends", "receipts"):
        sent: Counter[int] = Counter()
        for row in rows(folder, table):
            sent[row["destination"]] += row["count"]
        # A producer sends what is planned before the end: its share of each second, rounded to a message.
        expected = [sum(counts) for counts in RECORDED.values()]
        assert [sent[destination] for destination in range(3)] == pytest.approx(expected, abs=1)
        total_bytes = sum(row["bytes"] for row in rows(folder, table))
        assert total_bytes / sent.total() == pytest.approx(sum(SIZES) / 2, rel=0.15)
    assert set(point.body_sizes) == {*SIZES}
