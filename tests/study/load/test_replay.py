"""A study from an activity trace of the broker."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqlab.broker.server.trace.records import SCHEMA
from mqlab.study import load_study
from mqlab.study.load.replay import UnusableTraceError, read_trace, replay_study

SECOND = 10**9
START = 1_700_000_000 * SECOND


def record(operation: str, t: float, destination: str, *, connection: int = 1, messages: int = 1, size: int = 100,
           code: str = "ok", detail: str = "") -> dict[str, object]:  # fmt: skip
    return {
        "application": "orders", "connection": connection, "operation": operation, "t": START + round(t * SECOND),
        "duration": 5, "destination": destination, "messages": messages, "bytes": messages * size, "code": code,
        "detail": detail,
    }  # fmt: skip


def trace(tmp_path: Path, *records: dict[str, object]) -> pa.Table:
    pq.write_table(pa.Table.from_pylist([*records], schema=SCHEMA), tmp_path / "trace.parquet")
    return read_trace([tmp_path / "trace.parquet"])


def test_the_study_has_the_load_of_the_trace(tmp_path: Path) -> None:
    records = trace(
        tmp_path,
        record("connect", 0, ""),
        record("put", 0.1, "queue:a", detail='{"persistent":true}'),
        record("put", 0.9, "queue:b", connection=2, messages=2, size=1000, detail='{"persistent":true}'),
        record("put", 3.2, "queue:a", detail='{"persistent":true}'),
        record("put", 3.3, "queue:a", code="refused: full"),
        record("put", 3.3, "queue:mqlab.trace"),
        record("put", 1.0, "topic:news", size=12, messages=5),
        record("get", 1.0, "queue:a", connection=7),
        record("get", 1.0, "queue:a", connection=8),
        record("get", 1.0, "queue:b", connection=8),
    )
    made = replay_study(records, "mine")
    for name, text in {**made.files, "study.yaml": made.text}.items():
        (tmp_path / name).write_text(text)
    queues, topics = load_study(tmp_path).points("full")
    assert (queues.domain, queues.destinations, queues.producers, queues.consumers) == ("queue", 2, 2, 3)
    assert (queues.bodies, queues.persistent, queues.phases.measure) == ("50% 100B, 50% 1KB", True, 4.0)
    assert queues.profile == "3/s for 1000ms then 0/s for 2000ms then 1/s for 1000ms then again"
    assert (topics.bodies, topics.persistent, topics.profile) == ("24B", False, "5/s for 1000ms then again")
    assert (queues.shares, topics.shares) == ("50% + 50%", "")
    assert '"queue:a, queue:b"' in made.text


def test_destinations_keep_their_shares(tmp_path: Path) -> None:
    puts = [record("put", 0, f"queue:{name}", messages=count) for name, count in (("a", 1), ("b", 5), ("c", 3))]
    made = replay_study(trace(tmp_path, *puts), "mine")
    assert "    shares: 55.56% + 33.33% + 11.11%\n" in made.text
    many = [record("put", 0, f"queue:{number}") for number in range(151)]
    assert "shares:" not in replay_study(trace(tmp_path, *many), "mine").text
    (tmp_path / "many").mkdir()
    for name, text in (files := replay_study(trace(tmp_path, *many[:150]), "mine")).files.items():
        (tmp_path / "many" / name).write_text(text)
    (tmp_path / "many" / "study.yaml").write_text(files.text)
    (point,) = load_study(tmp_path / "many").points("full")
    assert point.destinations == len(point.shares.split(" + ")) == 150


def test_many_sizes_keep_their_mean_and_their_tail(tmp_path: Path) -> None:
    sizes = [100 + number for number in range(990)] + [100_000] * 10
    records = trace(tmp_path, *(record("put", 0, "queue:a", size=size) for size in sizes))
    (line,) = [line for line in replay_study(records, "mine").text.splitlines() if "size:" in line]
    assert line.split("size: ")[1] == "50% 350B + 40% 800B + 9% 1044B + 1% 100KB"


def test_what_is_no_load(tmp_path: Path) -> None:
    with pytest.raises(UnusableTraceError, match="no successful put"):
        replay_study(trace(tmp_path, record("get", 0, "queue:a")), "mine")
    (tmp_path / "text.parquet").write_text("text")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    for name in ("text.parquet", "other.parquet", "nowhere.parquet"):
        with pytest.raises(UnusableTraceError, match="is not an activity trace"):
            read_trace([tmp_path / name])
