"""`mqlab report RUN...`: the reports again, from measures that are there."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from mqlab.cli.console import Exit, fail, say, show_json
from mqlab.cli.measure import open_folder
from mqlab.events.folder import RunFolder
from mqlab.pipeline.measure import NotMeasuredError
from mqlab.report import as_json as document
from mqlab.report import print_summary, write_index, write_report
from mqlab.study import StudyError


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Write the reports of run folders from their measures, and print the summaries."""
    run_folders = [open_folder(folder) for folder in folders]
    for run_folder in run_folders:
        page = _written(run_folder)
        if not as_json:
            print_summary(run_folder, Console(highlight=False))
        say(f"report: {page}")
    if len(run_folders) > 1:
        say(f"all reports: {write_index(run_folders)}")
    documents = [document(run_folder) for run_folder in run_folders]
    if as_json:
        show_json(documents[0] if len(documents) == 1 else {"studies": documents})
    for found in documents:
        fail_on_bad_audits(found)


def _written(folder: RunFolder) -> Path:
    try:
        return write_report(folder)
    except NotMeasuredError as error:
        fail(f"{error}; first: mqlab measure {folder.path}", Exit.USAGE)
    except StudyError as error:
        fail(str(error), Exit.USAGE)


def fail_on_bad_audits(found: dict[str, Any]) -> None:
    """A run whose messages did not all arrive as they must is the first thing to know."""
    if any(audit["status"] in ("failed", "void") for audit in found["audits"]):
        fail("an audit failed: see the report", Exit.AUDIT_FAILED)
