"""`mqlab demo`: the embedded broker beside the installed systems, to one sentence and a page."""

import shlex
import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

import typer

from mqlab.cli.measure import ConfOption, MasterOption, spark_target
from mqlab.cli.run import IgnoreNoise, run_study
from mqlab.cli.systems.names import load_default, not_ready
from mqlab.cli.terminal.console import Exit, fail, say, show_json
from mqlab.cli.terminal.exit_status import exit_with_status
from mqlab.cli.terminal.pipeline_time import PipelineTime
from mqlab.report import as_json as document
from mqlab.runner.conductor import RunPlan
from mqlab.study import StudyError, load_study
from mqlab.systems import SYSTEMS, System

_EMBEDDED: Final = "embedded"
# The pipeline and the report take the rest of two minutes.
_MINUTES: Final = 1.3


def demo(
    minutes: Annotated[float, typer.Option(min=0.05, help="The time for all runs.")] = _MINUTES,
    runs: Annotated[Path, typer.Option(envvar="MQLAB_RUNS", help="The folder for run folders.")] = Path("runs"),
    ignore_noise: IgnoreNoise = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show in about two minutes what the lab does: the embedded broker beside the installed systems."""
    systems = _installed()
    say(f"The systems: {', '.join(system.label for system in systems)}. mqlab systems lists those to install.")
    try:
        study = load_study(Path(str(files("mqlab.study") / "demo.yaml")))
    except StudyError as error:
        fail(str(error), Exit.INTERNAL)
    command = "mqlab " + shlex.join(sys.argv[1:])
    order = RunPlan(study, "full", study.points("full", ()), systems, 2, command, not ignore_noise)
    folder = run_study(order, runs, spark_target(master, conf), PipelineTime(), quiet=as_json, seconds=60 * minutes)
    if as_json:
        show_json(document(folder))
    else:
        say("Next: mqlab studies lists published studies, mqlab init writes a study of your own.")
    exit_with_status([folder])


def _installed() -> list[System]:
    """The embedded broker first, and every system with its default settings that can be measured here now."""
    others = (load_default(name) for name in sorted(SYSTEMS) if name != _EMBEDDED)
    loaded = (system for system in others if not isinstance(system, str))
    return [SYSTEMS[_EMBEDDED]({}), *(system for system in loaded if not not_ready(system))]
