"""`mqlab compare`: two systems in turns, or two finished runs: better, worse, same or not known."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from mqlab.cli.doctor import warn_of_machine
from mqlab.cli.history.options import history_filter, query
from mqlab.cli.measure import ConfOption, MasterOption, open_folder, spark_target
from mqlab.cli.options import AgentsOption, IgnoreNoiseOption, JsonOption, OnlyOption, RunsOption
from mqlab.cli.results.finish import (
    CsvOption,
    HdrLogOption,
    JunitOption,
    MarkdownOption,
    OpenMessagingOption,
    OutputFiles,
)
from mqlab.cli.results.gates import FailIfOption, exit_with_gates, parse_gates
from mqlab.cli.run import interleaved_systems, run_study
from mqlab.cli.terminal.completion import complete_study, complete_system
from mqlab.cli.terminal.console import Exit, fail, io_reason, say, show_json
from mqlab.cli.terminal.exit_status import exit_with_worst
from mqlab.cli.terminal.pipeline_time import PipelineTime
from mqlab.events.folder import RunFolder
from mqlab.pipeline.history.dataset import machine_id
from mqlab.pipeline.history.earlier import EarlierMeasure, earlier_measures
from mqlab.pipeline.measure_tables import NotMeasuredError, check_measures
from mqlab.report.comparison.comparison import TOLERANCE, WORSE, SystemComparison
from mqlab.report.comparison.comparison import compare as compare_systems
from mqlab.report.comparison.document import comparison_json
from mqlab.report.comparison.finished_runs import (
    IncomparableRunsError,
    choose_systems,
    differing_machine,
    joined,
    run_differences,
)
from mqlab.report.comparison.page import build, write_comparison
from mqlab.report.comparison.terminal import print_comparison
from mqlab.report.comparison.with_history import compare_with_history
from mqlab.report.data.run_results import RunResults
from mqlab.report.export.csv_file import comparison_csv
from mqlab.report.export.junit import comparison_suite, junit_xml
from mqlab.report.render.markdown import render as render_markdown
from mqlab.runner.conductor import RunPlan
from mqlab.runner.rounds import Budget
from mqlab.study import DEFAULT_SCALE, Point, StudyError, load_study
from mqlab.study.language.units import format_percent, parse_percent
from mqlab.systems import SystemSettingError
from mqlab.systems.secrets import mask_text

# The time for the runs of a comparison, and the most runs of a point.
MINUTES: Final = 4.0
_MOST_ROUNDS: Final = 96


@dataclass(frozen=True)
class ComparedRuns:
    """The results of one run or of two as one, the names of the systems in them, and that of their page."""

    results: RunResults
    base: str
    new: str
    runs: tuple[RunResults, ...]
    page: str = "compare"
    notes: tuple[str, ...] = ()

    @property
    def folders(self) -> list[RunFolder]:
        return [run.folder for run in self.runs]


def compare(
    base: Annotated[
        str,
        typer.Argument(
            metavar="BASE", help="A system (NAME:setting=value,...), or a run folder.", autocompletion=complete_system
        ),
    ],
    new: Annotated[
        str | None,
        typer.Argument(
            metavar="NEW",
            help="The other one. Without it: the two systems of one run.",
            autocompletion=complete_system,
        ),
    ] = None,
    study: Annotated[
        str | None,
        typer.Option(
            metavar="STUDY|FILE", help="Run this study on the two systems, in turns.", autocompletion=complete_study
        ),
    ] = None,
    scale: Annotated[str, typer.Option(help="quick, standard or full.")] = DEFAULT_SCALE,
    only: OnlyOption = None,
    minutes: Annotated[
        float, typer.Option(min=0.1, envvar="MQLAB_MINUTES", help="The time for all runs; each point is run once.")
    ] = MINUTES,
    system: Annotated[
        list[str] | None, typer.Option(help="Of finished runs: the base, and the new one. Default: the only ones.")
    ] = None,
    tolerance: Annotated[str, typer.Option(help="The same: the interval lies within plus or minus this.")] = (
        format_percent(TOLERANCE)
    ),
    history: Annotated[
        bool, typer.Option("--history", help="Compare the run BASE with the earlier runs of its history.")
    ] = False,
    other_machine: Annotated[
        bool, typer.Option("--other-machine", help="Compare runs of different machines all the same.")
    ] = False,
    fail_if: FailIfOption = None,
    junit: JunitOption = None,
    markdown: MarkdownOption = None,
    csv: CsvOption = None,
    openmessaging: OpenMessagingOption = None,
    hdr_log: HdrLogOption = None,
    runs: RunsOption = Path("runs"),
    agents: AgentsOption = 2,
    ignore_noise: IgnoreNoiseOption = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two systems, two settings of one, or two runs, at every point. A limit of --fail-if may be +10%."""
    within = _tolerance(tolerance)
    outputs = OutputFiles(junit, markdown, csv, openmessaging, hdr_log)
    outputs.check()
    if history:
        _compare_history(base, new, study, system or [], within, fail_if, outputs, master, other_machine, as_json)
        return
    if study is not None:
        plan = plan_of(base, new, study, scale, only, agents, watch_noise=not ignore_noise)
        gates = parse_gates(fail_if, plan.points, compares=True)
        # The time is for all points, and not for those of undecided claims alone.
        plan = replace(plan, budget=Budget(60 * minutes))
        if not ignore_noise:
            warn_of_machine(runs)
        folder = run_study(plan, runs, spark_target(master, conf), PipelineTime(), quiet=True)
        compared = _of_one(folder, [one.label for one in plan.systems])
    else:
        compared = _finished(base, new, system or [], other_machine=other_machine)
        gates = parse_gates(fail_if, compared.results.points, compares=True)
    all_gates = [*compared.runs[-1].study.goals, *gates]
    found = compare_systems(
        compared.results, compared.base, compared.new, tolerance=within, gates=all_gates, notes=compared.notes
    )
    _finish(found, compared, outputs, as_json=as_json)


def _finish(comparison: SystemComparison, compared: ComparedRuns, outputs: OutputFiles, *, as_json: bool) -> None:
    """Show the comparison, write its files, and end the command with the exit code of its audits and gates."""
    _show(comparison, compared, as_json=as_json)
    outputs.write(
        compared.runs,
        lambda: junit_xml([comparison_suite(comparison, compared.runs)]),
        lambda: render_markdown(build(comparison)),
        lambda: comparison_csv(comparison),
    )
    audits = [asdict(audit) for audit in comparison.audits]
    exit_with_worst(audits, measured=True, complete=not any(run.is_incomplete for run in compared.runs))
    if not comparison.rows:
        fail("nothing was compared: the systems have no point in common", Exit.NOTHING_MEASURED)
    worse = 0 if comparison.has_conditions else comparison.count(WORSE)
    regression = f"{worse} of {len(comparison.rows)} figures are worse" if worse else ""
    exit_with_gates(comparison.gates, regression=regression)


def _compare_history(
    run: str, new: str | None, study: str | None, systems: Sequence[str], tolerance: float,
    fail_if: Sequence[str] | None, outputs: OutputFiles, master: str | None, other_machine: bool, as_json: bool,
) -> None:  # fmt: skip
    """Compare a finished run with the earlier ones of its history."""
    if new is not None or study is not None:
        fail("--history compares one finished run with its history: name only its run folder", Exit.USAGE)
    folder = _open(run)
    results = _results(folder)
    known = [system.name for system in results.systems]
    chosen = list(systems) or known
    if len(chosen) != 1 or chosen[0] not in known:
        fail(f"{run} has the systems {', '.join(known)}; name one of them: --system NAME", Exit.USAGE)
    gates = parse_gates(fail_if, results.points, compares=True)
    system = chosen[0]
    earlier = _earlier(folder, results, system, master, other_machine=other_machine)
    comparison = compare_with_history(
        results, system, earlier, tolerance=tolerance, gates=[*results.study.goals, *gates]
    )  # fmt: skip
    compared = ComparedRuns(results, comparison.base, comparison.new, (results,), "compare-with-history")
    _finish(comparison, compared, outputs, as_json=as_json)


def _earlier(
    folder: RunFolder, results: RunResults, system: str, master: str | None, *, other_machine: bool
) -> list[EarlierMeasure]:
    """The earlier measures of the same study, scale and system, on the same machine unless told otherwise."""
    started = results.meta.get("started")
    if not started:
        fail(f"{folder.path}: meta.json does not say when it was run, so its history is not known", Exit.USAGE)
    chosen = history_filter(None, study=[results.study.id], scale=[results.scale], system=[system])
    find = partial(earlier_measures, before=datetime.fromisoformat(started))
    measures = query(str(folder.path.resolve().parent), chosen, master, None, find)
    machine = machine_id(results.meta.get("machine") or {})
    earlier = [measure for measure in measures if other_machine or measure.machine == machine]
    if measures and not earlier:
        fail("all earlier runs are of other machines; --other-machine compares with them", Exit.USAGE)
    if not earlier:
        fail(f"the history has no earlier run of {results.study.id} at this scale on {system}", Exit.NOTHING_MEASURED)
    return earlier


def _tolerance(text: str) -> float:
    try:
        share = parse_percent(text)
    except ValueError as error:
        fail(f"--tolerance: {error}", Exit.USAGE)
    if not 0 < share < 1:
        fail(f"--tolerance: '{text}' is not between 0% and 100%", Exit.USAGE)
    return share


def plan_of(
    base: str, new: str | None, name: str, scale: str, only: Sequence[str] | None, agents: int, *, watch_noise: bool
) -> RunPlan:
    """Return the plan of a study on two systems, which start anew for each round. Ends the command on an error."""
    if new is None:
        fail(f"name two systems: mqlab compare {mask_text(base)} NEW --study {name}", Exit.USAGE)
    try:
        study = load_study(name)
        systems = interleaved_systems([base] if base == new else [base, new], twice=base == new)
        points = [_until_time_ends(point) for point in study.points(scale, only or ())]
        command = "mqlab " + shlex.join(map(mask_text, sys.argv[1:]))
        return RunPlan(study, scale, points, systems, agents, command, watch_noise, restart=True)
    except (StudyError, SystemSettingError) as error:
        fail(str(error), Exit.USAGE)


def _until_time_ends(point: Point) -> Point:
    repeat = point.repeat.model_copy(update={"until": None, "least": 1, "most": _MOST_ROUNDS})
    return point.model_copy(update={"repeat": repeat})


def _finished(base: str, new: str | None, systems: Sequence[str], *, other_machine: bool) -> ComparedRuns:
    folders = [_open(path) for path in (base, new) if path is not None]
    if len(systems) > 2:
        fail("--system: name the base and the new system, and no other", Exit.USAGE)
    if len(folders) == 1:
        return _of_one(folders[0], systems)
    one, other = (_results(folder) for folder in folders)
    if not other_machine and (difference := differing_machine(one, other)):
        fail(f"the runs are of different machines ({difference}); --other-machine compares them", Exit.USAGE)
    try:
        both, (first, second) = joined(one, other, choose_systems(one, other, systems))
    except IncomparableRunsError as error:
        fail(str(error), Exit.USAGE)
    notes = run_differences(one, other)
    page = f"compare-with-{folders[0].path.resolve().name}"
    return ComparedRuns(both, first, second, (one, other), page, tuple(notes))


def _open(path: str) -> RunFolder:
    if not Path(path).exists():
        fail(f"{mask_text(path)}: no such run folder; to compare two systems, name a study: --study STUDY", Exit.USAGE)
    return open_folder(Path(path))


def _results(folder: RunFolder) -> RunResults:
    try:
        check_measures(folder)
        return RunResults.of(folder)
    except NotMeasuredError as error:
        fail(f"{error}; run this first: mqlab measure {folder.path}", Exit.USAGE)
    except StudyError as error:
        fail(str(error), Exit.USAGE)


def _of_one(folder: RunFolder, systems: Sequence[str]) -> ComparedRuns:
    results = _results(folder)
    known = [one.name for one in results.systems]
    chosen = list(systems) or known
    if len(chosen) != 2 or len({*chosen} & {*known}) != 2:
        fail(
            f"{folder.path} has the systems {', '.join(known)}; name two of them: --system BASE --system NEW",
            Exit.USAGE,
        )
    return ComparedRuns(results, chosen[0], chosen[1], (results,))


def _show(found: SystemComparison, compared: ComparedRuns, *, as_json: bool) -> None:
    folder = compared.folders[-1]
    try:
        page = write_comparison(found, folder.report, compared.page)
    except OSError as error:
        fail(f"{folder.report} cannot be written: {io_reason(error)}", Exit.INTERNAL)
    if as_json:
        show_json({"runs": [str(one.path) for one in compared.folders], **comparison_json(found)})
    else:
        print_comparison(found, Console(highlight=False))
    say(f"comparison: {page}")
