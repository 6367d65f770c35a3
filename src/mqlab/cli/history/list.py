"""`mqlab history list`: the measures of all run folders."""

from mqlab.cli.history import options
from mqlab.cli.history.export import as_rows, in_order
from mqlab.cli.history.options import history_filter, query
from mqlab.cli.measure import ConfOption, MasterOption
from mqlab.cli.terminal.console import show, show_json, table_of
from mqlab.json_values import JsonObject
from mqlab.report.render import formatting


def list_measures(
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
    as_json: options.JsonOption = False,
) -> None:
    """List measures, in the order of time."""
    chosen = history_filter(
        since, study=study, scale=scale, scenario=scenario, point=point, system=system, metric=metric, machine=machine
    )
    rows = as_rows(query(runs, chosen, master, conf, in_order))
    if as_json:
        show_json({"measures": rows})
        return
    head = ("started", "machine", "study", "scale", "system", "scenario", "point", "metric", "value", "± 95 %", "runs")
    show(table_of(head, map(_cells, rows)))


def _cells(row: JsonObject) -> tuple[str, ...]:
    half = "" if row["ci95"] is None else formatting.quantity(row["ci95"], row["unit"])
    place = (row[name] or "" for name in ("machine", "study", "scale", "system", "scenario", "point", "metric"))
    value = formatting.quantity(row["value"], row["unit"])
    return ((row["started"] or "")[:16], *map(formatting.plain, place), value, half, str(row["runs"]))
