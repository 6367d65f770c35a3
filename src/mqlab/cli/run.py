"""`mqlab run`: run, measure, report."""

import asyncio
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop
from rich.console import Console

from mqlab.cli.console import Exit, fail, io_reason, say, show_json
from mqlab.cli.interrupt import cancelled_once
from mqlab.cli.measure import MasterOption, measured
from mqlab.cli.progress import ProgressBars
from mqlab.cli.report import exit_by, written
from mqlab.cli.systems.names import not_ready
from mqlab.events.folder import RunFolder
from mqlab.report import as_json as document
from mqlab.report import print_summary, write_index
from mqlab.runner.conductor import Conductor, RunPlan
from mqlab.runner.study_files import check_stand_in
from mqlab.study import DEFAULT_SCALE, Study, StudyError, built_in_studies, load_study
from mqlab.systems import System, SystemFailedError, SystemSettingError
from mqlab.systems import system as parse_system
from mqlab.systems.secrets import masked


def run(
    studies: Annotated[
        list[str] | None, typer.Argument(metavar="[STUDY|FILE]...", help="Default: every built-in study.")
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME or NAME:setting=value,...; may be repeated. "
            "Default: those that the study names in place of its own; embedded."
        ),
    ] = None,
    scale: Annotated[str, typer.Option(help="quick, standard or full (the study's own length).")] = DEFAULT_SCALE,
    only: Annotated[list[str] | None, typer.Option(help="A scenario; may be repeated.")] = None,
    runs: Annotated[Path, typer.Option(envvar="MQLAB_RUNS", help="Where run folders are made.")] = Path("runs"),
    agents: Annotated[int, typer.Option(min=1, max=64, help="Processes that play the roles.")] = 2,
    master: MasterOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Run studies on systems, measure with Spark, write the report."""
    command = "mqlab " + shlex.join(map(masked, sys.argv[1:]))
    orders = []
    try:
        for name in studies or built_in_studies():
            study = load_study(name)
            if not system:
                _check_stand_ins(study)
            systems = _systems(system or default_systems(study))
            orders.append(RunPlan(study, scale, study.points(scale, only or ()), systems, agents, command))
    except (StudyError, SystemSettingError) as error:
        fail(str(error), Exit.USAGE)
    documents = _all(orders, runs, master, quiet=as_json)
    if as_json:
        show_json(documents[0] if len(documents) == 1 else {"studies": documents})
    exit_by(documents)


def default_systems(study: Study) -> list[str]:
    """What runs when the user names no system: those that the study puts in place of its own."""
    return list(dict.fromkeys(study.stand_ins.values())) or ["embedded"]


def _check_stand_ins(study: Study) -> None:
    for published, text in study.stand_ins.items():
        try:
            check_stand_in(study, published, parse_system(text))
        except SystemSettingError as error:
            raise study.error(f"stand_ins.{published}: {error}", "stand_ins", published) from None


def _systems(texts: list[str]) -> list[System]:
    try:
        found = [parse_system(text) for text in texts]
    except SystemSettingError as error:
        fail(str(error), Exit.USAGE)
    labels = [one.label for one in found]
    for label in labels:
        if labels.count(label) > 1:
            fail(f"the system {label} is named twice", Exit.USAGE)
    for one in found:
        # Now, and not after the hours that the others take.
        if why := not_ready(one):
            fail(why, Exit.SYSTEM_UNAVAILABLE)
    return found


def _all(orders: list[RunPlan], runs: Path, master: str | None, *, quiet: bool) -> list[dict[str, Any]]:
    """One study after the other; the page that leads to all reports is written even when one of them fails."""
    done: list[RunFolder] = []
    try:
        for order in orders:
            done.append(one_study(order, runs, master, quiet=quiet))  # noqa: PERF401 - what is done counts if one fails
    finally:
        if len(done) > 1:
            say(f"all reports: {write_index(done)}")
    return [document(folder) for folder in done]


def one_study(order: RunPlan, runs: Path, master: str | None, *, quiet: bool) -> RunFolder:
    """One study from its first run to its report."""
    try:
        folder = RunFolder.create(runs, f"{order.study.id}-{order.scale}")
    except OSError as error:
        fail(f"--runs {runs}: no run folder can be made there ({error.strerror or error})", Exit.USAGE)
    try:
        with ProgressBars() as bars:
            uvloop.run(cancelled_once(Conductor(order, folder, bars.load).conduct()))
            measured(folder, master, bars)
            page = written(folder)
    except (KeyboardInterrupt, asyncio.CancelledError):
        fail(f"interrupted; what there is, marked incomplete: {folder.path}", Exit.INTERRUPTED)
    except SystemFailedError as error:
        fail(f"{error}; what there is, marked incomplete: {folder.path}", Exit.SYSTEM_UNAVAILABLE)
    except OSError as error:
        fail(f"a file cannot be used: {io_reason(error)}; what there is: {folder.path}", Exit.INTERNAL)
    if not quiet:
        print_summary(folder, Console(highlight=False))
    say(f"report: {page}")
    return folder
