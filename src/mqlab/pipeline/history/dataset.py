"""The dataset of the history: a Parquet file for each run folder, in the folder `history` beside the run folders."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from mqlab.errors import MqlabError
from mqlab.events.folder import NotARunFolderError, RunFolder, run_folders
from mqlab.events.schema import COMPLETE
from mqlab.json_values import JsonObject
from mqlab.pipeline.measure_tables import NotMeasuredError, read_table
from mqlab.pipeline.schema import TABLES, MeasureRow

_FOLDER: Final = "history"
# Added to a row of the table `measures`: which run folder it is of, when, where and with what it was run.
_CONTEXT: Final = pa.schema({
    "run_folder": pa.string(), "started": pa.timestamp("us", "UTC"), "complete": pa.bool_(), "scale": pa.string(),
    "machine": pa.string(), "cpu": pa.string(), "cores": pa.int32(), "mqlab": pa.string(),
    "system_version": pa.string(),
})  # fmt: skip
SCHEMA: Final = pa.schema([
    *_CONTEXT, *TABLES["measures"].schema,
    pa.field("thin", pa.bool_()),  # a percentile with too few independent observations beyond it
    pa.field("values", pa.list_(pa.float64())),  # of the used runs, in their order
])  # fmt: skip
# The columns that a user filters by.
FILTERED: Final = ("study", "scale", "scenario", "point", "system", "metric", "machine")


class NoHistoryError(MqlabError, ValueError):
    """There is no history yet."""


@dataclass(frozen=True)
class HistoryFilter:
    """`patterns`: by column, texts of which one must match; `*` stands for any characters."""

    patterns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    since: datetime | None = None


def record_history(folder: RunFolder) -> Path:
    """Write the measures of the folder to the history beside it, in place of those that it wrote before."""
    path = folder.path.resolve()
    target = history_of(path.parent) / f"{path.name}.parquet"
    target.parent.mkdir(exist_ok=True)
    # Spark ignores names with a leading dot.
    unfinished = target.with_name(f".{target.name}.unfinished")
    pq.write_table(history_rows(folder, path.name), unfinished)
    return unfinished.replace(target)


def rebuild_history(runs: Path) -> tuple[list[Path], list[str]]:
    """Record every run folder in `runs`; return the written files, and why other folders were left out."""
    written, reasons = [], []
    for path in run_folders(runs):
        try:
            written.append(record_history(RunFolder.open(path)))
        except (NotARunFolderError, NotMeasuredError) as error:
            reasons.append(str(error))
    return written, reasons


def history_of(runs: Path) -> Path:
    return runs / _FOLDER


def history_url(runs: str) -> str:
    """The same behind the URL of a folder of run folders."""
    return f"{runs.rstrip('/')}/{_FOLDER}"


def read_history(spark: SparkSession, runs: Path | str, chosen: HistoryFilter | None = None) -> DataFrame:
    """The rows that the filter chooses. `runs`: a path, or a URL that Spark reads. Raises NoHistoryError."""
    rows = _read_url(spark, history_url(runs)) if isinstance(runs, str) else _read_path(spark, history_of(runs))
    chosen = chosen or HistoryFilter()
    for column, patterns in chosen.patterns.items():
        if patterns:
            any_of = [fn.col(column).like(_like(pattern)) for pattern in patterns]
            rows = rows.where(fn.array_contains(fn.array(*any_of), fn.lit(True)))
    return rows if chosen.since is None else rows.where(fn.col("started") >= fn.lit(chosen.since))


def _read_path(spark: SparkSession, path: Path) -> DataFrame:
    if not any(path.glob("[!.]*.parquet")):
        raise NoHistoryError(f"{path}: there is no history")
    return spark.read.schema(from_arrow_schema(SCHEMA)).parquet(str(path))


def _read_url(spark: SparkSession, url: str) -> DataFrame:
    try:
        rows = spark.read.schema(from_arrow_schema(SCHEMA)).parquet(url)
        # With Spark Connect only this question looks for the folder.
        return rows.select(rows.columns)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise NoHistoryError(f"{url}: there is no history") from error


def _like(pattern: str) -> str:
    for special in ("\\", "%", "_"):
        pattern = pattern.replace(special, f"\\{special}")
    return pattern.replace("*", "%")


def history_rows(folder: RunFolder, name: str) -> pa.Table:
    """The measures of a folder as rows of the history, in which it has this name."""
    meta = folder.meta()
    machine = meta.get("machine") or {}
    context = {
        "run_folder": name, "started": _time(meta.get("started")), "complete": meta.get("status") == COMPLETE,
        "scale": meta.get("scale"), "machine": machine_id(machine), "cpu": machine.get("cpu"),
        "cores": machine.get("cores"), "mqlab": meta.get("mqlab"),
    }  # fmt: skip
    versions = {system["name"]: system.get("version") for system in meta.get("systems", ())}
    values = _values(read_table(folder, "run_measures"))
    rows = [
        {
            **context, **row, "system_version": versions.get(row["system"]), "thin": MeasureRow(**row).is_thin,
            "values": values.get(_key(row), []),
        }
        for row in read_table(folder, "measures")
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def machine_id(machine: JsonObject) -> str:
    """The machine of a run folder: its id or, where an older version of the lab wrote none, what is known of it."""
    known = json.dumps([machine.get(name) for name in ("cpu", "cores", "memory")])
    return str(machine.get("id") or sha256(known.encode()).hexdigest()[:12])


def _values(run_measures: Sequence[JsonObject]) -> dict[tuple[str, ...], list[float]]:
    values: dict[tuple[str, ...], list[float]] = {}
    for row in sorted(run_measures, key=lambda row: (row["repetition"], row["run"])):
        values.setdefault(_key(row), []).append(row["value"])
    return values


def _key(row: JsonObject) -> tuple[str, ...]:
    return (row["scenario"], row["point"], row["system"], row["metric"])


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
