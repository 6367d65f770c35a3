"""`mqlab history trend`: each metric over the run folders, with its change points."""

from dataclasses import asdict
from typing import Annotated, Final

import typer

from mqlab.cli.history import options
from mqlab.cli.history.options import history_filter, query
from mqlab.cli.measure import ConfOption, MasterOption
from mqlab.cli.terminal.console import show, show_json, table_of
from mqlab.cli.terminal.sparkline import sparkline
from mqlab.json_values import JsonObject
from mqlab.pipeline.history.trends import Trend, trends
from mqlab.report.render import formatting

# The last values that a line shows.
_SHOWN: Final = 24


def trend(
    study: options.StudyOption = None,
    scale: options.ScaleOption = None,
    scenario: options.ScenarioOption = None,
    point: options.PointOption = None,
    system: options.SystemOption = None,
    metric: options.MetricOption = None,
    machine: options.MachineOption = None,
    since: options.SinceOption = None,
    changed: Annotated[bool, typer.Option("--changed", help="Only those with a change point.")] = False,
    runs: options.RunsOption = "runs",
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show each metric over time, on each machine, and the points at which its level changed."""
    chosen = history_filter(
        since, study=study, scale=scale, scenario=scenario, point=point, system=system, metric=metric, machine=machine
    )
    found = [one for one in query(runs, chosen, master, conf, trends) if one.changes or not changed]
    if as_json:
        show_json({"trends": [*map(_as_json, found)]})
        return
    head = ("machine", "study", "scale", "system", "scenario", "point", "metric", "folders", "trend", "last", "changes")
    show(table_of(head, map(_cells, found)))


def _cells(found: Trend) -> tuple[str, ...]:
    place = (found.machine, found.study, found.scale, found.system, found.scenario, found.point, found.metric)
    changes = [
        f"{change.started:%Y-%m-%d %H:%M} {_percent(change.before, change.after)} ({found.judge(change)})"
        for change in found.changes
    ]
    last = formatting.quantity(found.values[-1], found.unit)
    texts = [formatting.plain(text or "") for text in place]
    return (*texts, str(len(found.values)), sparkline(found.values, _SHOWN), last, "; ".join(changes))


def _percent(before: float, after: float) -> str:
    return f"{100 * (after / before - 1):+.1f} %" if before else f"{before:g} to {after:g}"


def _as_json(found: Trend) -> JsonObject:
    times = [started.isoformat() for started in found.started]
    changes = [
        {**asdict(change), "started": change.started.isoformat(), "is": found.judge(change)} for change in found.changes
    ]
    return {**asdict(found), "started": times, "changes": changes}
