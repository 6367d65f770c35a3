"""`mqlab capacity`: the highest rate of a system, or of each of several, at which a latency goal holds."""

import shlex
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer
import yaml

from mqlab.cli.doctor import warn_of_machine
from mqlab.cli.experiments.workload import workload_parameters
from mqlab.cli.measure import ConfOption, MasterOption, spark_target
from mqlab.cli.options import AgentsOption, IgnoreNoiseOption, JsonOption, RunsOption
from mqlab.cli.run import interleaved_systems, run_study
from mqlab.cli.terminal.completion import complete_study, complete_system
from mqlab.cli.terminal.console import Exit, fail, say, show, show_json, table_of
from mqlab.cli.terminal.pipeline_time import PipelineTime
from mqlab.json_values import JsonObject
from mqlab.report import as_json as document
from mqlab.report.capacity.section import rate_table, sentence
from mqlab.report.capacity.trials import PointSearch, searches
from mqlab.report.data.run_results import RunResults
from mqlab.runner.conductor import RunPlan
from mqlab.study import StudyError, load_study
from mqlab.study.capacity.goal import LatencyGoal
from mqlab.systems.secrets import mask_text

# The load without --study: one queue with messages of 1 KiB.
_WORKLOAD: Final[JsonObject] = {"queues": "1", "producers": "1", "consumers": "1", "message": {"size": "1KiB"}}
_CODES: Final = {"found": Exit.OK, "above": Exit.OK, "below": Exit.GOAL_MISSED, "undecided": Exit.INCONCLUSIVE}


def capacity(
    system: Annotated[
        list[str],
        typer.Argument(
            metavar="SYSTEM",
            help="NAME or NAME:setting=value,...; the runs of several take turns.",
            autocompletion=complete_system,
        ),
    ],
    goal: Annotated[str, typer.Option(help="A duration and its limit, such as 'latency.p99 < 10ms'.")],
    study: Annotated[
        str | None,
        typer.Option(
            metavar="STUDY|FILE", help="The study of the load; default: a queue, 1 KiB.", autocompletion=complete_study
        ),
    ] = None,
    scenario: Annotated[str | None, typer.Option(help="Its scenario; default: the only one.")] = None,
    within: Annotated[str, typer.Option(help="How close to the limit the rate is found.")] = "1.5%",
    seconds: Annotated[float, typer.Option(min=0.2, help="The measure phase of each run.")] = 3.0,
    aa: Annotated[
        bool, typer.Option("--aa", help="Search twice, with runs in turns: how well the machine repeats the answer.")
    ] = False,
    runs: RunsOption = Path("runs"),
    agents: AgentsOption = 2,
    ignore_noise: IgnoreNoiseOption = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the highest rate at which a latency goal holds, with a clean audit and a steady state.

    The rate is confirmed by repeated runs, and a rate just above it misses the goal. Exit code 4: even the lowest rate
    misses the goal; 6: the runs did not decide it.
    """
    with tempfile.TemporaryDirectory(prefix="mqlab-capacity-") as folder:
        file = Path(folder) / "study.yaml"
        chosen = interleaved_systems(system, twice=aa)
        try:
            found = LatencyGoal.parse(f"{goal}, within {within}")
            name, load = ("queue", _WORKLOAD) if study is None else workload_parameters(study, scenario, file.parent)
            file.write_text(_study_text(found, load, name, seconds))
            made = load_study(file, own=True)
            command = "mqlab " + shlex.join(map(mask_text, sys.argv[1:]))
            order = RunPlan(made, "full", made.points("full", ()), chosen, agents, command, not ignore_noise)
        except (StudyError, ValueError) as error:
            fail(str(error), Exit.USAGE)
        if not ignore_noise:
            warn_of_machine(runs)
        run_folder = run_study(order, runs, spark_target(master, conf), PipelineTime(), quiet=True)
    results = RunResults.of(run_folder)
    if as_json:
        show_json(document(run_folder))
    else:
        for search in searches(results):
            _show(search)
    # As with `mqlab run`: a goal that is missed comes before one that is not known.
    codes = {_CODES[search.capacity.status] for search in searches(results)} - {Exit.OK}
    if codes:
        raise typer.Exit(min(codes))


def _study_text(goal: LatencyGoal, load: JsonObject, scenario: str, seconds: float) -> str:
    """A study with one scenario, the rate of which is searched for."""
    phases = {"warmup": f"{max(0.3, seconds / 3):.3g}s", "measure": f"{seconds:g}s", "drain": "10s"}
    parameters = {key: value for key, value in load.items() if key != "rate"}
    study = {
        "study": "capacity",
        "title": f"The highest rate within {goal}",
        "defaults": {"phases": phases, "repeat": {"until": "none", "most": "1"}},
        "scenarios": {scenario: {**parameters, "find": goal.text}},
        "exhibits": [{"summary": "Scenario summary"}],
    }
    return yaml.safe_dump(study, sort_keys=False)


def _show(search: PointSearch) -> None:
    table = rate_table(search)
    show(table_of(table.head, ([cell.full_text for cell in row.cells] for row in table.rows)))
    say(sentence(search))
