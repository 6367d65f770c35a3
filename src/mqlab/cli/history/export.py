"""`mqlab history export FILE`: measures as a file of another program."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq
import typer
from pyspark.sql import DataFrame

from mqlab.cli.history import options
from mqlab.cli.history.options import history_filter, query
from mqlab.cli.measure import ConfOption, MasterOption
from mqlab.cli.terminal.console import Exit, fail, io_reason, say
from mqlab.json_values import JsonObject

_ORDER: Final = ("started", "run_folder", "study", "system", "scenario", "point", "metric")


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Its name ends in .csv, .json or .parquet.")],
    study: options.StudyOption = None,
    scale: options.ScaleOption = None,
    scenario: options.ScenarioOption = None,
    point: options.PointOption = None,
    system: options.SystemOption = None,
    metric: options.MetricOption = None,
    machine: options.MachineOption = None,
    since: options.SinceOption = None,
    runs: options.RunsOption = "runs",
    master: MasterOption = None,
    conf: ConfOption = None,
) -> None:
    """Write measures to a CSV, JSON or Parquet file."""
    write = _FORMATS.get(file.suffix)
    if write is None:
        fail(f"{file}: its name must end in {', '.join(_FORMATS)}", Exit.USAGE)
    chosen = history_filter(
        since, study=study, scale=scale, scenario=scenario, point=point, system=system, metric=metric, machine=machine
    )
    rows = query(runs, chosen, master, conf, in_order)
    try:
        write(rows, file)
    except OSError as error:
        fail(f"{file} cannot be written: {io_reason(error)}", Exit.USAGE)
    say(f"{rows.num_rows} measures in {file}")


def in_order(measures: DataFrame) -> pa.Table:
    return measures.orderBy(*_ORDER).toArrow()


def as_rows(measures: pa.Table) -> list[JsonObject]:
    """The rows with times as text, for JSON."""
    times = [None if time is None else time.isoformat() for time in measures["started"].to_pylist()]
    return [{**row, "started": time} for row, time in zip(measures.to_pylist(), times, strict=True)]


def _write_csv(measures: pa.Table, file: Path) -> None:
    """The values of runs are one column, with spaces between them."""
    values = pa.array([" ".join(map(repr, values)) for values in measures["values"].to_pylist()])
    started = pc.strftime(measures["started"].cast(pa.timestamp("s", "UTC")), "%Y-%m-%dT%H:%M:%SZ")
    for name, column in (("started", started), ("values", values)):
        measures = measures.set_column(measures.column_names.index(name), name, column)
    csv.write_csv(measures, file)


def _write_json(measures: pa.Table, file: Path) -> None:
    file.write_text(json.dumps({"measures": as_rows(measures)}, indent=1, ensure_ascii=False) + "\n")


_FORMATS: Final[dict[str, Callable[[pa.Table, Path], None]]] = {
    ".csv": _write_csv, ".json": _write_json, ".parquet": pq.write_table,
}  # fmt: skip
