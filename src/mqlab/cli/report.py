"""`mqlab report RUN...`: write reports from existing measures."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mqlab.cli.console import Exit, fail, io_reason, say, show_json
from mqlab.cli.exit_status import exit_with_status
from mqlab.cli.interrupt import exit_on_signal
from mqlab.cli.measure import open_folder
from mqlab.events.folder import RunFolder
from mqlab.pipeline.measure_tables import NotMeasuredError
from mqlab.report import as_json as document
from mqlab.report import print_summary, write_index, write_report
from mqlab.study import StudyError


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Write the reports of run folders from their measures and print the summaries."""
    run_folders = [open_folder(folder) for folder in folders]
    for run_folder in run_folders:
        page = run_report(run_folder)
        if not as_json:
            print_summary(run_folder, Console(highlight=False))
        say(f"report: {page}")
    if len(run_folders) > 1:
        say(f"all reports: {write_index(run_folders)}")
    if as_json:
        documents = [document(run_folder) for run_folder in run_folders]
        show_json(documents[0] if len(documents) == 1 else {"studies": documents})
    exit_with_status(run_folders)


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
