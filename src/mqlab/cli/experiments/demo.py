"""`mqlab demo`: the embedded broker beside the installed systems, to one sentence and a page."""

import math
import shlex
import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

import typer

from mqlab.cli.doctor import warn_of_machine
from mqlab.cli.measure import ConfOption, MasterOption, spark_target
from mqlab.cli.options import IgnoreNoiseOption, JsonOption, RunsOption
from mqlab.cli.run import run_study
from mqlab.cli.systems.names import installed_systems
from mqlab.cli.terminal.console import Exit, fail, say, show_json
from mqlab.cli.terminal.exit_status import exit_with_status
from mqlab.cli.terminal.pipeline_time import PipelineTime
from mqlab.report import as_json as document
from mqlab.runner.conductor import RunPlan
from mqlab.study import StudyError, load_study

# The pipeline and the report take the rest of two minutes.
_MINUTES: Final = 1.3
# Runs take up to twice as long as their load: a system starts, and every run prepares and drains.
_TIMES_LOAD: Final = 2
# A comparison needs them.
_FEWEST_SYSTEMS: Final = 2


def demo(
    minutes: Annotated[float, typer.Option(min=0.05, help="The time for all runs.")] = _MINUTES,
    runs: RunsOption = Path("runs"),
    ignore_noise: IgnoreNoiseOption = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show in about two minutes what the lab does: the embedded broker beside the installed systems."""
    try:
        study = load_study(Path(str(files("mqlab.study") / "demo.yaml")))
    except StudyError as error:
        fail(str(error), Exit.INTERNAL)
    command = "mqlab " + shlex.join(sys.argv[1:])
    points, installed = study.points("full", ()), installed_systems()
    system_minutes = _TIMES_LOAD * sum(point.repeat.least * point.seconds for point in points) / 60
    systems = installed[: max(_FEWEST_SYSTEMS, int(minutes / system_minutes))]
    say(f"The systems: {', '.join(system.label for system in systems)}. mqlab systems lists those to install.")
    if left_out := ", ".join(system.label for system in installed[len(systems) :]):
        for_all = math.ceil(10 * system_minutes * len(installed)) / 10
        say(f"Left out, for lack of time: {left_out}. For all: mqlab demo --minutes {for_all:g}.")
    order = RunPlan(study, "full", points, systems, 2, command, not ignore_noise)
    if not ignore_noise:
        warn_of_machine(runs)
    folder = run_study(order, runs, spark_target(master, conf), PipelineTime(), quiet=as_json, seconds=60 * minutes)
    if as_json:
        show_json(document(folder))
    else:
        say("Next: mqlab studies lists published studies, mqlab init writes a study of your own.")
    exit_with_status([folder])
