"""`mqlab run`: run studies, measure and report."""

import asyncio
import os
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

from mqlab.cli.agents_option import DEFAULT_COUNT, AgentCountOption, AgentsOption, agent_launcher
from mqlab.cli.doctor import warn_of_machine
from mqlab.cli.measure import ConfOption, MasterOption, measure_so_far, open_folder, run_measure, spark_target
from mqlab.cli.options import IgnoreNoiseOption, JsonOption, OnlyOption, RunsOption
from mqlab.cli.report import run_report
from mqlab.cli.results.finish import (
    CsvOption,
    HdrLogOption,
    JunitOption,
    MarkdownOption,
    OpenMessagingOption,
    OutputFiles,
    finish_runs,
)
from mqlab.cli.results.gates import FailIfOption, parse_gates
from mqlab.cli.systems.names import not_ready, with_installed
from mqlab.cli.terminal.completion import complete_study, complete_system
from mqlab.cli.terminal.console import Exit, fail, io_reason, say
from mqlab.cli.terminal.interrupt import exit_on_signal, run_cancellable
from mqlab.cli.terminal.pipeline_time import PipelineTime
from mqlab.cli.terminal.progress import ProgressBars
from mqlab.cli.terminal.session_start import session_started
from mqlab.events.compaction import CompactionError, compact
from mqlab.events.folder import RunFolder, RunFolderBusyError
from mqlab.events.live import MEASURES, RUNS, LiveLog
from mqlab.json_values import JsonObject
from mqlab.pipeline.session import SparkTarget, SparkUnavailableError
from mqlab.report import print_summary, write_index
from mqlab.report.capacity.trials import next_runs
from mqlab.report.claims.open_points import open_points
from mqlab.report.data.run_results import RunResults
from mqlab.runner.agents.launcher import AgentStartError
from mqlab.runner.conductor import Conductor, Progress, RunPlan
from mqlab.runner.resume import NotResumableError, check_resumable, keep_runs
from mqlab.runner.rounds import Budget
from mqlab.runner.study_files import check_stand_in
from mqlab.study import (
    DEFAULT_SCALE,
    Point,
    Study,
    StudyError,
    built_in_studies,
    deprecations,
    load_study,
    published_studies,
)
from mqlab.study.capacity.search import RunRequest
from mqlab.systems import System, SystemFailedError, SystemSettingError
from mqlab.systems import system as parse_system
from mqlab.systems.secrets import HIDDEN, mask_text

# The most runs of a point with `--minutes`.
_MOST_RUNS: Final = 48


def run(
    studies: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STUDY|FILE]...", help="Default: every published study.", autocompletion=complete_study
        ),
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME or NAME:setting=value,...; may be repeated; installed: every system that can be measured here. "
            "Default: the stand-ins that the study names, or embedded.",
            autocompletion=complete_system,
        ),
    ] = None,
    scale: Annotated[str, typer.Option(help="quick, standard or full (the study's own length).")] = DEFAULT_SCALE,
    only: OnlyOption = None,
    runs: RunsOption = Path("runs"),
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A folder on the disk for the data of the systems. Default: that of the run folder."
        ),
    ] = None,
    agents: AgentsOption = str(DEFAULT_COUNT),
    agent_count: AgentCountOption = None,
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
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Go on with an interrupted run folder: what was run is kept. Name no study with it."
        ),
    ] = None,
    fail_if: FailIfOption = None,
    junit: JunitOption = None,
    markdown: MarkdownOption = None,
    csv: CsvOption = None,
    openmessaging: OpenMessagingOption = None,
    hdr_log: HdrLogOption = None,
    ignore_noise: IgnoreNoiseOption = False,
    live: Annotated[bool, typer.Option("--live", help="Watch the runs on the page of mqlab serve.")] = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run studies on systems, measure with Spark and write the reports."""
    target = spark_target(master, conf)
    folder = None
    if resume is not None:
        if studies or only or aa or minutes or data:
            fail("--resume goes on with the study and the options of the run folder; leave them out", Exit.USAGE)
        folder = open_folder(resume)
        options = _resumed_options(folder, system)
        studies, system, only = [options["study"]], options["systems"], options["only"]
        scale, minutes, aa = (options[name] for name in ("scale", "minutes", "aa"))
        agents, agent_count = str(options["agents"]), options.get("agent_count")
        ignore_noise = options["ignore_noise"]
        data = Path(options["data"]) if options.get("data") else None
    _check_data(data)
    system = system and with_installed(system)
    launcher, count = agent_launcher(agents, agent_count, conf)
    command = "mqlab " + shlex.join(map(mask_text, sys.argv[1:]))
    outputs = OutputFiles(junit, markdown, csv, openmessaging, hdr_log)
    outputs.check()
    orders: list[RunPlan] = []
    try:
        for name in studies or published_studies():
            study = load_study(name)
            if not system:
                _check_stand_ins(study)
            systems = interleaved_systems(system or default_systems(study), twice=aa)
            points = study.points(scale, only or ())
            points = _with_more_runs(points) if minutes else points
            for sentence in deprecations(points):
                say(f"{study.id}: {sentence}")
            again = _command(name, {"system": system, "only": only, "scale": [scale]})
            restart = scale != DEFAULT_SCALE
            options = {
                "study": name if name in built_in_studies() else str(Path(name).resolve()),
                "systems": system and [*map(mask_text, system)], "only": only, "scale": scale, "agents": agents,
                "agent_count": agent_count, "minutes": minutes, "aa": aa, "ignore_noise": ignore_noise,
                "data": data and str(data.resolve()),
            }  # fmt: skip
            orders.append(
                RunPlan(
                    study, scale, points, systems, count, command, not ignore_noise, restart=restart, again=again,
                    options=options, data=data, launcher=launcher,
                )
            )  # fmt: skip
            if folder is not None:
                check_resumable(folder, study, systems)
    except (StudyError, SystemSettingError, NotResumableError) as error:
        fail(str(error), Exit.USAGE)
    gates = parse_gates(fail_if, [point for order in orders for point in order.points])
    if not studies:
        # The first answer comes soon.
        orders.sort(key=lambda order: order.study.budget(scale) or 0.0)
    if not ignore_noise:
        warn_of_machine(runs, data)
    with _page(runs) if live else nullcontext():
        folders = _run_all(orders, runs, target, minutes, quiet=as_json, resumed=folder)
    finish_runs(folders, gates, outputs, as_json=as_json)


def _check_data(data: Path | None) -> None:
    if data is not None and not (data.is_dir() and os.access(data, os.W_OK)):
        fail(f"--data {data}: there is no folder that can be written to", Exit.USAGE)


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


def interleaved_systems(texts: list[str], *, twice: bool) -> list[System]:
    """Return the systems, each ready to run; `twice`: each beside itself. Ends the command on an error."""
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
    orders: list[RunPlan], runs: Path, target: SparkTarget, minutes: float | None, *, quiet: bool,
    resumed: RunFolder | None = None,
) -> list[RunFolder]:  # fmt: skip
    """Run the studies one after the other. The index of the reports is written even if a study fails.

    The time of the whole is that of all budgets. The next studies get what a study leaves of its budget since all its
    claims are decided, and have less by what it takes too much, but at least half of their own.
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
                seconds = max(budget / 2, budget + given - pipeline_time.other_seconds)
                given += budget
            title = f"study {number + 1} of {len(orders)}: {order.study.id}" if len(orders) > 1 else ""
            done.append(
                run_study(
                    order, runs, target, pipeline_time, quiet=quiet, seconds=seconds, title=title, resumed=resumed
                )
            )
    finally:
        if len(done) > 1:
            say(f"all reports: {write_index(done)}")
        if done:
            say(pipeline_time.sentence())
    return done


def run_study(
    order: RunPlan,
    runs: Path,
    target: SparkTarget,
    pipeline_time: PipelineTime,
    *,
    quiet: bool,
    seconds: float | None = None,
    title: str = "",
    resumed: RunFolder | None = None,
) -> RunFolder:
    """`seconds`: the budget of the runs. `resumed`: the run folder to go on with; None: a new one."""
    try:
        folder = resumed or RunFolder.create(runs, f"{order.study.id}-{order.scale}")
    except OSError as error:
        fail(f"--runs {runs}: cannot create a run folder there ({error.strerror or error})", Exit.USAGE)
    if title:
        say(title)
    live = LiveLog(folder.path, title or order.study.id)
    try:
        with folder.locked():
            if resumed is not None:
                order = replace(order, kept=(kept := keep_runs(folder, order.points)))
                seconds = seconds and max(0.0, seconds - sum(run.seconds for run in kept))
                say(f"{len(kept)} runs of {folder.path} are kept")
            page = _run_in(folder, order, target, pipeline_time, seconds, live)
    except RunFolderBusyError as error:
        fail(str(error), Exit.USAGE)
    except (KeyboardInterrupt, asyncio.CancelledError):
        go_on = f"; to go on: mqlab run --resume {folder.path}" if order.options else ""
        fail(f"interrupted; the incomplete run folder is {folder.path}{go_on}", Exit.INTERRUPTED)
    except (SystemFailedError, AgentStartError, SparkUnavailableError) as error:
        fail(f"{error}; the incomplete run folder is {folder.path}", Exit.SYSTEM_UNAVAILABLE)
    except OSError as error:
        fail(f"a file cannot be used: {io_reason(error)}; the incomplete run folder is {folder.path}", Exit.INTERNAL)
    finally:
        live.end()
    if not quiet:
        print_summary(folder, Console(highlight=False))
    say(f"report: {page}")
    return folder


def _run_in(
    folder: RunFolder, order: RunPlan, target: SparkTarget, pipeline_time: PipelineTime, seconds: float | None,
    live: LiveLog,
) -> Path:  # fmt: skip
    """Run, measure and report; return the page."""
    if seconds is not None:
        order = replace(order, budget=_budget(order, folder, seconds))
    if any(order.study.scenarios[point.scenario].find for point in order.points):
        order = replace(order, search=partial(_search, folder, target))
    with ProgressBars() as bars:

        def watch(progress: Progress) -> None:
            bars.update_load(progress)
            live.write(RUNS, **asdict(progress))

        with session_started(order, target, pipeline_time) as started:
            uvloop.run(run_cancellable(Conductor(started, folder, watch, live.observe).conduct()))
        _compact(folder)
        live.write(MEASURES)
        with pipeline_time.running():
            run_measure(folder, target, bars)
        return run_report(folder)


def _compact(folder: RunFolder) -> None:
    """Compact the event files. They can be measured as they are, and a compaction may be killed at any moment."""
    with exit_on_signal(f"interrupted; the events are kept: mqlab measure {folder.path}"):
        try:
            compact(folder)
        except OSError as error:
            say(f"the event files are not compacted: {io_reason(error)}")
        except (CompactionError, RunFolderBusyError) as error:
            say(f"the event files are not compacted: {error}")


def _resumed_options(folder: RunFolder, system: list[str] | None) -> JsonObject:
    """The options of the command that began the run folder; `system`: those that were named again."""
    options: JsonObject = folder.meta().get("options") or {}
    if not options:
        fail(f"{folder.path} was not begun by mqlab run, or by an older one: it cannot go on", Exit.USAGE)
    if system is None and any(HIDDEN in text for text in options["systems"] or ()):
        fail("the run folder keeps no secrets: name the same systems with --system", Exit.USAGE)
    return {**options, "systems": system or options["systems"]}


def _search(folder: RunFolder, target: SparkTarget) -> list[RunRequest]:
    """The runs that the capacity searches need after those that there are."""
    measure_so_far(folder, target)
    return next_runs(RunResults.of(folder))


def _budget(order: RunPlan, folder: RunFolder, seconds: float) -> Budget:
    """It is spent on the claims of the study, if there are any."""
    if not any(claim.check for claim in order.study.claims):
        return Budget(seconds)
    meta = {"scale": order.scale, "systems": [{"name": system.label} for system in order.systems]}
    return Budget(seconds, partial(open_points, RunResults(folder, meta, order.study), order.points))
