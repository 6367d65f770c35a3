"""`mqlab overhead`: the cost of settings of a system, with confidence intervals, from interleaved runs."""

import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer
import yaml
from rich.table import Table

from mqlab.cli.doctor import warn_of_machine
from mqlab.cli.experiments.workload import workload_parameters
from mqlab.cli.measure import ConfOption, MasterOption, spark_target
from mqlab.cli.options import AgentsOption, IgnoreNoiseOption, JsonOption, RunsOption
from mqlab.cli.run import run_study
from mqlab.cli.terminal.completion import complete_system
from mqlab.cli.terminal.console import Exit, fail, say, show, show_json, table_of
from mqlab.cli.terminal.pipeline_time import PipelineTime
from mqlab.events.folder import RunFolder
from mqlab.json_values import JsonObject
from mqlab.pipeline.measure_tables import read_table
from mqlab.report.render import formatting
from mqlab.runner.conductor import RunPlan
from mqlab.study import StudyError, load_study
from mqlab.systems import System, SystemSettingError
from mqlab.systems import system as parse_system
from mqlab.systems.secrets import mask_text

# The load of the built-in trace study: requests and replies of 2 KiB.
_WORKLOAD: Final = {
    "pattern": "request-reply", "queues": "1", "requesters": "10", "responders": "10", "message": {"size": "2KiB"},
}  # fmt: skip
# How long a value of a setting that is switched while the system runs stays in force.
_SLICE: Final = "400ms"
# The metrics to compare, as far as the workload has them.
_METRICS: Final = ("rate.round_trips", "rate.received", "cpu.message", "cpu.broker")


class SettingComparison(NamedTuple):
    key: str
    base: str
    treated: tuple[str, ...]


def overhead(
    setting: Annotated[
        list[str], typer.Option(help="KEY=VALUE,VALUE...: values to compare with the system's present one.")
    ],
    system: Annotated[
        str, typer.Option(help="NAME or NAME:setting=value,...", autocompletion=complete_system)
    ] = "embedded",
    workload: Annotated[
        str | None, typer.Option(metavar="STUDY:SCENARIO", help="The load; default: requests and replies of 2 KiB.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=2, max=1000, help="Runs of each value, or of all of them.")] = 8,
    seconds: Annotated[float, typer.Option(min=0.2, help="How long each value is measured in a run.")] = 1.0,
    runs: RunsOption = Path("runs"),
    agents: AgentsOption = 2,
    separate: Annotated[
        bool, typer.Option("--separate", help="A run for each value, even if the system can switch while it runs.")
    ] = False,
    ignore_noise: IgnoreNoiseOption = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the cost of settings.

    Base and treated values take turns, so that drift affects both alike: every 400 ms within a run if the system can
    change the setting while it runs, otherwise run by run.
    """
    target = spark_target(master, conf)
    with tempfile.TemporaryDirectory(prefix="mqlab-overhead-") as folder:
        file = Path(folder) / "study.yaml"
        try:
            chosen = parse_system(system)
            settings = [_setting(text, chosen) for text in setting]
            live = () if separate else chosen.live_settings
            file.write_text(_study_text(settings, _parameters(workload, file.parent), rounds, seconds, live))
            study = load_study(file, own=True)
            command = "mqlab " + shlex.join(map(mask_text, sys.argv[1:]))
            order = RunPlan(study, "full", study.points("full", ()), [chosen], agents, command, not ignore_noise)
        except (SystemSettingError, StudyError, ValueError) as error:
            fail(str(error), Exit.USAGE)
        if not ignore_noise:
            warn_of_machine(runs)
        run_folder = run_study(order, runs, target, PipelineTime(), quiet=True)
    costs = _costs(run_folder)
    if as_json:
        show_json({"run": str(run_folder.path), "costs": costs})
    else:
        show(_table(costs))
    if not costs:
        fail("nothing was measured: no run was valid", Exit.NOTHING_MEASURED)


def _setting(text: str, chosen: System) -> SettingComparison:
    key, equals, values = text.partition("=")
    treated = tuple(filter(None, (value.strip() for value in values.split(","))))
    if not equals or not treated:
        raise ValueError(f"--setting {text!r}: write KEY=VALUE or KEY=VALUE,VALUE")
    known = chosen.describe()["settings"]
    if key not in known:
        raise ValueError(f"--setting: {chosen.name} has no setting {key!r}; it has: {', '.join(known)}")
    base = _setting_text(known[key])
    if base in treated:
        raise ValueError(f"--setting {text!r}: {key} already is {base}")
    for value in treated:
        chosen.with_settings({key: value})
    return SettingComparison(key, base, treated)


def _setting_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in (None, "") else str(value)


def _parameters(workload: str | None, folder: Path) -> JsonObject:
    """Return the parameters of the workload as in a study file in this folder."""
    if workload is None:
        return dict(_WORKLOAD)
    name, _, scenario = workload.rpartition(":")
    if not name:
        raise ValueError(f"--workload {workload}: write STUDY:SCENARIO")
    return workload_parameters(name, scenario, folder)[1]


def _study_text(
    settings: Sequence[SettingComparison], parameters: JsonObject, rounds: int, seconds: float, live: Sequence[str]
) -> str:
    """Return a study file with a scenario for each setting. The system can change `live` settings while it runs."""
    title = "The cost of settings: " + ", ".join(f"{setting.key} {' '.join(setting.treated)}" for setting in settings)
    phases = {"warmup": "200ms", "measure": f"{seconds:g}s"}
    repeat = {"until": "none", "least": f"{rounds}", "most": f"{rounds}"}
    scenarios = {
        setting.key: {
            **parameters,
            "settings": {**parameters.get("settings", {}), setting.key: [setting.base, *setting.treated]},
            "base": {setting.key: setting.base},
            "switch": _SLICE if setting.key in live and _can_switch(parameters) else "none",
        }
        for setting in settings
    }
    study = {
        "study": "overhead", "title": title, "defaults": {"phases": phases, "repeat": repeat}, "scenarios": scenarios,
    }  # fmt: skip
    return yaml.safe_dump(study, sort_keys=False)


def _can_switch(parameters: JsonObject) -> bool:
    """Whether slices of a run of this workload can be compared: it is a load for a time, and nothing else changes."""
    return not {"messages", "faults"} & parameters.keys() and parameters.get("load", "both") == "both"


def _costs(folder: RunFolder) -> list[JsonObject]:
    """Return the rows of the impacts table, in the order of the points."""
    rows = [row for row in read_table(folder, "impacts") if row["metric"] in _METRICS]
    return sorted(rows, key=lambda row: (row["scenario"], row["point"], _METRICS.index(row["metric"])))


def _table(costs: Sequence[JsonObject]) -> Table:
    say("The change of each metric against the base, by values that took turns:")
    return table_of(("setting", "against", "metric", "change", "95 % interval"), map(_cells, costs))


def _cells(row: JsonObject) -> tuple[str, ...]:
    low, high = row["low"], row["high"]
    interval = "not known" if low is None else f"{low:+.1f} % to {high:+.1f} %"
    return (row["point"], row["base"], formatting.metric(row["metric"]), f"{row['value']:+.1f} %", interval)
