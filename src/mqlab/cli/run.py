"""`mqlab run`: run studies, measure and report."""

import asyncio
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop
from rich.console import Console

from mqlab.cli.console import Exit, fail, io_reason, say, show_json
from mqlab.cli.exit_status import exit_with_status
from mqlab.cli.interrupt import run_cancellable
from mqlab.cli.measure import MasterOption, PipelineTime, run_measure
from mqlab.cli.progress import ProgressBars
from mqlab.cli.report import run_report
from mqlab.cli.systems.names import not_ready
from mqlab.events.folder import RunFolder
from mqlab.events.live import ENDED, MEASURES, RUNS, LiveLog
from mqlab.report import as_json as document
from mqlab.report import print_summary, write_index
from mqlab.report.claims.open_points import open_points
from mqlab.report.data.run_results import RunResults
from mqlab.runner.conductor import Conductor, Progress, RunPlan
from mqlab.runner.rounds import Budget
from mqlab.runner.study_files import check_stand_in
from mqlab.study import DEFAULT_SCALE, Point, Study, StudyError, built_in_studies, deprecations, load_study
from mqlab.systems import System, SystemFailedError, SystemSettingError
from mqlab.systems import system as parse_system
from mqlab.systems.secrets import mask_text

# The most runs of a point with `--minutes`.
_MOST_RUNS: Final = 48

IgnoreNoise = Annotated[
    bool,
    typer.Option(
        "--ignore-noise", envvar="MQLAB_IGNORE_NOISE",
        help="Do not watch other work on the machine, and repeat no run that is disturbed or not steady.",
    ),
]  # fmt: skip


def run(
    studies: Annotated[
        list[str] | None, typer.Argument(metavar="[STUDY|FILE]...", help="Default: every built-in study.")
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME or NAME:setting=value,...; may be repeated. "
            "Default: the stand-ins that the study names, or embedded."
        ),
    ] = None,
    scale: Annotated[str, typer.Option(help="quick, standard or full (the study's own length).")] = DEFAULT_SCALE,
    only: Annotated[list[str] | None, typer.Option(help="A scenario; may be repeated.")] = None,
    runs: Annotated[Path, typer.Option(envvar="MQLAB_RUNS", help="The folder for run folders.")] = Path("runs"),
    agents: Annotated[int, typer.Option(min=1, max=64, help="Agent processes, which run the roles.")] = 2,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            help="The time for all runs, spent where verdicts are undecided; every point is run once in any case. "
            "Default: that of the scale.",
        ),
    ] = None,
    aa: Annotated[
        bool, typer.Option("--aa", help="Run each system against itself, and print the rate of false differences.")
    ] = False,
    ignore_noise: IgnoreNoise = False,
    live: Annotated[bool, typer.Option("--live", help="Watch the runs on the page of mqlab serve.")] = False,
    master: MasterOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Run studies on systems, measure with Spark and write the reports."""
    command = "mqlab " + shlex.join(map(mask_text, sys.argv[1:]))
    orders: list[RunPlan] = []
    try:
        for name in studies or built_in_studies():
            study = load_study(name)
            if not system:
                _check_stand_ins(study)
            systems = _systems(system or default_systems(study), twice=aa)
            points = study.points(scale, only or ())
            points = _with_more_runs(points) if minutes else points
            for sentence in deprecations(points):
                say(f"{study.id}: {sentence}")
            again = _command(name, {"system": system, "only": only, "scale": [scale]})
            restart = scale != DEFAULT_SCALE
            orders.append(
                RunPlan(study, scale, points, systems, agents, command, not ignore_noise, restart=restart, again=again)
            )
    except (StudyError, SystemSettingError) as error:
        fail(str(error), Exit.USAGE)
    if not studies:
        # The first answer comes soon.
        orders.sort(key=lambda order: order.study.budget(scale) or 0.0)
    with _page(runs) if live else nullcontext():
        folders = _run_all(orders, runs, master, minutes, quiet=as_json)
    if as_json:
        documents = [document(folder) for folder in folders]
        show_json(documents[0] if len(documents) == 1 else {"studies": documents})
    exit_with_status(folders)


@contextmanager
def _page(runs: Path) -> Iterator[None]:
    """The page, served by a process of its own: it must not take time from the lab."""
    command = [sys.executable, "-m", "mqlab", "serve", "--runs", str(runs)]
    server = subprocess.Popen(command, start_new_session=True)
    try:
        yield
    finally:
        server.terminate()
        server.wait()


def _command(study: str, options: Mapping[str, Sequence[str] | None]) -> str:
    words = [word for name, values in options.items() for value in values or () for word in (f"--{name}", value)]
    return "mqlab run " + shlex.join(map(mask_text, [study, *words]))


def default_systems(study: Study) -> list[str]:
    """Return the systems to run if the user names none: the stand-ins of the study, or the embedded broker."""
    return list(dict.fromkeys(study.stand_ins.values())) or ["embedded"]


def _check_stand_ins(study: Study) -> None:
    for published, text in study.stand_ins.items():
        try:
            check_stand_in(study, published, parse_system(text))
        except SystemSettingError as error:
            raise study.error(f"stand_ins.{published}: {error}", "stand_ins", published) from None


def _with_more_runs(points: list[Point]) -> list[Point]:
    """With a budget of the user's own, the time ends the runs of a point and not their number."""
    return [
        point.model_copy(update={"repeat": point.repeat.model_copy(update={"least": 1, "most": _MOST_RUNS})})
        for point in points
    ]


def _systems(texts: list[str], *, twice: bool) -> list[System]:
    try:
        systems = [parse_system(text) for text in texts]
    except SystemSettingError as error:
        fail(str(error), Exit.USAGE)
    labels = [system.label for system in systems]
    for label in labels:
        if labels.count(label) > 1:
            fail(f"the system {label} is named twice", Exit.USAGE)
    for system in systems:
        # Check before the first run, which may take hours.
        if reason := not_ready(system):
            fail(reason, Exit.SYSTEM_UNAVAILABLE)
    return [one for system in systems for one in (system, system.again())] if twice else systems


def _run_all(
    orders: list[RunPlan], runs: Path, master: str | None, minutes: float | None, *, quiet: bool
) -> list[RunFolder]:
    """Run the studies one after the other. The index of the reports is written even if a study fails.

    The next studies get the time that a study leaves of its budget since all its claims are decided.
    """
    done: list[RunFolder] = []
    pipeline_time = PipelineTime()
    end = None if minutes is None else time.monotonic() + 60 * minutes
    given = 0.0
    try:
        for number, order in enumerate(orders):
            left = len(orders) - number
            seconds = None if end is None else (end - time.monotonic()) / left
            if end is None and (budget := order.study.budget(order.scale)) is not None:
                seconds = budget + max(0.0, given - pipeline_time.other_seconds)
                given += budget
            title = f"study {number + 1} of {len(orders)}: {order.study.id}" if len(orders) > 1 else ""
            done.append(run_study(order, runs, master, pipeline_time, quiet=quiet, seconds=seconds, title=title))
    finally:
        if len(done) > 1:
            say(f"all reports: {write_index(done)}")
        if done:
            say(pipeline_time.sentence())
    return done


def run_study(
    order: RunPlan,
    runs: Path,
    master: str | None,
    pipeline_time: PipelineTime,
    *,
    quiet: bool,
    seconds: float | None = None,
    title: str = "",
) -> RunFolder:
    """`seconds`: the budget of the runs."""
    try:
        folder = RunFolder.create(runs, f"{order.study.id}-{order.scale}")
    except OSError as error:
        fail(f"--runs {runs}: cannot create a run folder there ({error.strerror or error})", Exit.USAGE)
    if seconds is not None:
        order = replace(order, budget=_budget(order, folder, seconds))
    if title:
        say(title)
    live = LiveLog(folder.path, title or order.study.id)
    try:
        with ProgressBars() as bars:

            def watch(progress: Progress) -> None:
                bars.update_load(progress)
                live.write(RUNS, **asdict(progress))

            uvloop.run(run_cancellable(Conductor(order, folder, watch).conduct()))
            live.write(MEASURES)
            with pipeline_time.running():
                run_measure(folder, master, bars)
            page = run_report(folder)
    except (KeyboardInterrupt, asyncio.CancelledError):
        fail(f"interrupted; the incomplete run folder is {folder.path}", Exit.INTERRUPTED)
    except SystemFailedError as error:
        fail(f"{error}; the incomplete run folder is {folder.path}", Exit.SYSTEM_UNAVAILABLE)
    except OSError as error:
        fail(f"a file cannot be used: {io_reason(error)}; the incomplete run folder is {folder.path}", Exit.INTERNAL)
    finally:
        live.write(ENDED)
    if not quiet:
        print_summary(folder, Console(highlight=False))
    say(f"report: {page}")
    return folder


def _budget(order: RunPlan, folder: RunFolder, seconds: float) -> Budget:
    """It is spent on the claims of the study, if there are any."""
    if not any(claim.check for claim in order.study.claims):
        return Budget(seconds)
    meta = {"scale": order.scale, "systems": [{"name": system.label} for system in order.systems]}
    return Budget(seconds, partial(open_points, RunResults(folder, meta, order.study), order.points))
