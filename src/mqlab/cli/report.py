"""`mqlab report RUN...`: write reports from existing measures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mqlab.cli.measure import open_folder
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
from mqlab.cli.terminal.console import Exit, fail, io_reason, say
from mqlab.cli.terminal.interrupt import exit_on_signal
from mqlab.events.folder import RunFolder
from mqlab.pipeline.measure_tables import NotMeasuredError
from mqlab.report import print_summary, write_index, write_report
from mqlab.report.data.run_results import RunResults
from mqlab.study import Point, StudyError


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders.")],
    fail_if: FailIfOption = None,
    junit: JunitOption = None,
    markdown: MarkdownOption = None,
    csv: CsvOption = None,
    openmessaging: OpenMessagingOption = None,
    hdr_log: HdrLogOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Write the reports of run folders from their measures and print the summaries."""
    run_folders = [open_folder(folder) for folder in folders]
    outputs = OutputFiles(junit, markdown, csv, openmessaging, hdr_log)
    outputs.check()
    gates = parse_gates(fail_if, [point for one in run_folders for point in _points(one)] if fail_if else [])
    for run_folder in run_folders:
        page = run_report(run_folder)
        if not as_json:
            print_summary(run_folder, Console(highlight=False))
        say(f"report: {page}")
    if len(run_folders) > 1:
        say(f"all reports: {write_index(run_folders)}")
    finish_runs(run_folders, gates, outputs, as_json=as_json)


def _points(folder: RunFolder) -> Sequence[Point]:
    try:
        return RunResults.of(folder).points
    except StudyError as error:
        fail(str(error), Exit.USAGE)


def run_report(folder: RunFolder) -> Path:
    """Write the report and return its page. Ends the command on an error."""
    retry = f"mqlab report {folder.path}"
    try:
        with exit_on_signal(f"interrupted; the measures are kept: {retry}"):
            return write_report(folder)
    except NotMeasuredError as error:
        fail(f"{error}; run this first: mqlab measure {folder.path}", Exit.USAGE)
    except StudyError as error:
        fail(str(error), Exit.USAGE)
    except OSError as error:
        fail(f"{folder.report} cannot be written: {io_reason(error)}. The measures are kept: {retry}", Exit.INTERNAL)
