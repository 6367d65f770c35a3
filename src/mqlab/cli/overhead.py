"""`mqlab overhead`: what a setting of a system costs, with an interval, from interleaved runs."""

import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
import yaml
from rich.table import Table
from rich.text import Text

from mqlab.cli.console import Exit, fail, say, show, show_json
from mqlab.cli.measure import MasterOption
from mqlab.cli.run import one_study
from mqlab.events.folder import RunFolder
from mqlab.pipeline.measure_tables import read_table
from mqlab.report.render import formatting
from mqlab.runner.conductor import RunPlan
from mqlab.study import StudyError, load_study
from mqlab.study.expansion import merge
from mqlab.study.language.text_file import read_text
from mqlab.systems import System, SystemSettingError
from mqlab.systems import system as parse_system
from mqlab.systems.secrets import masked

# The load of the study of traces: requests and replies of 2 KiB.
_WORKLOAD: Final = {
    "pattern": "request-reply", "queues": "1", "requesters": "10", "responders": "10", "message": {"size": "2KiB"},
}  # fmt: skip
# What is compared, where a workload has it: the rate, and the CPU that each message takes.
_SHOWN: Final = ("rate.round_trips", "rate.received", "cpu.message", "cpu.broker")
# Of a scenario, what is not about its load.
_NOT_THE_LOAD: Final = ("title", "published", "base", "phases", "repeat")


class Setting(NamedTuple):
    key: str
    base: str
    treated: tuple[str, ...]


def overhead(
    setting: Annotated[list[str], typer.Option(help="KEY=VALUE,VALUE...: what to compare with the system's own.")],
    system: Annotated[str, typer.Option(help="NAME or NAME:setting=value,...")] = "embedded",
    workload: Annotated[
        str | None, typer.Option(metavar="STUDY:SCENARIO", help="Whose load to use; default: requests and replies.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=2, max=1000, help="Runs of each value.")] = 8,
    seconds: Annotated[float, typer.Option(min=0.2, help="The measure phase of each run.")] = 1.0,
    runs: Annotated[Path, typer.Option(envvar="MQLAB_RUNS", help="Where run folders are made.")] = Path("runs"),
    agents: Annotated[int, typer.Option(min=1, max=64, help="Processes that play the roles.")] = 2,
    master: MasterOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measure what settings cost: base, treated, treated, base, and so on, so that what drifts drifts for both."""
    with tempfile.TemporaryDirectory(prefix="mqlab-overhead-") as folder:
        file = Path(folder) / "study.yaml"
        try:
            chosen = parse_system(system)
            settings = [_setting(text, chosen) for text in setting]
            file.write_text(_written(settings, _parameters(workload), rounds, seconds))
            study = load_study(file, own=True)
            command = "mqlab " + shlex.join(map(masked, sys.argv[1:]))
            order = RunPlan(study, "full", study.points("full", ()), [chosen], agents, command)
        except (SystemSettingError, StudyError, ValueError) as error:
            fail(str(error), Exit.USAGE)
        run_folder = one_study(order, runs, master, quiet=True)
    costs = _costs(run_folder)
    if as_json:
        show_json({"run": str(run_folder.path), "costs": costs})
    else:
        show(_table(costs))
    if not costs:
        fail("nothing was measured: no run was valid", Exit.NOTHING_MEASURED)


def _setting(text: str, chosen: System) -> Setting:
    key, equals, values = text.partition("=")
    treated = tuple(filter(None, (value.strip() for value in values.split(","))))
    if not equals or not treated:
        raise ValueError(f"--setting {text!r}: write KEY=VALUE or KEY=VALUE,VALUE")
    known = chosen.describe()["settings"]
    if key not in known:
        raise ValueError(f"--setting: {chosen.name} has no setting {key!r}; it has: {', '.join(known)}")
    base = _as_written(known[key])
    if base in treated:
        raise ValueError(f"--setting {text!r}: {key} is {base} already")
    for value in treated:
        chosen.with_settings({key: value})
    return Setting(key, base, treated)


def _as_written(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in (None, "") else str(value)


def _parameters(workload: str | None) -> dict[str, Any]:
    """As they are written in the study's file."""
    if workload is None:
        return dict(_WORKLOAD)
    name, _, scenario = workload.rpartition(":")
    if not name:
        raise ValueError(f"--workload {workload}: write STUDY:SCENARIO")
    study = load_study(name)
    if scenario not in study.scenarios:
        raise ValueError(f"--workload {workload}: {study.id} has the scenarios {', '.join(study.scenarios)}")
    file = yaml.load(read_text(study.files[0]), yaml.BaseLoader)
    written = merge(file.get("defaults", {}), file["scenarios"][scenario])
    return {key: value for key, value in written.items() if key not in _NOT_THE_LOAD}


def _written(settings: Sequence[Setting], parameters: dict[str, Any], rounds: int, seconds: float) -> str:
    """A study like any other: a scenario for each setting, each with its base."""
    title = "What settings cost: " + ", ".join(f"{one.key} {' '.join(one.treated)}" for one in settings)
    phases = {"warmup": "200ms", "measure": f"{seconds:g}s"}
    repeat = {"until": "none", "least": f"{rounds}", "most": f"{rounds}"}
    scenarios = {
        one.key: {
            **parameters,
            "settings": {**parameters.get("settings", {}), one.key: [one.base, *one.treated]},
            "base": {one.key: one.base},
        }
        for one in settings
    }
    study = {
        "study": "overhead", "title": title, "defaults": {"phases": phases, "repeat": repeat}, "scenarios": scenarios,
    }  # fmt: skip
    return yaml.safe_dump(study, sort_keys=False)


def _costs(folder: RunFolder) -> list[dict[str, Any]]:
    """The pipeline's impacts, in the order of the points."""
    rows = [row for row in read_table(folder, "impacts") if row["metric"] in _SHOWN]
    return sorted(rows, key=lambda row: (row["scenario"], row["point"], _SHOWN.index(row["metric"])))


def _table(costs: Sequence[dict[str, Any]]) -> Table:
    table = Table("setting", "against", "metric", "change", "95 % interval", box=None)
    for one in costs:
        low, high = one["low"], one["high"]
        interval = "not known" if low is None else f"{low:+.1f} % to {high:+.1f} %"
        cells = (one["point"], one["base"], formatting.metric(one["metric"]), f"{one['value']:+.1f} %", interval)
        table.add_row(*map(Text, cells))
    say("The change of each metric against the base, from interleaved runs.")
    return table
