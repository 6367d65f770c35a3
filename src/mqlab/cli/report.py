"""`mqlab report RUN`: the report again, from measures that are there."""

from typing import Annotated, Any

import typer
from rich.console import Console

from mqlab.cli.console import Exit, fail, say, show_json
from mqlab.cli.measure import FolderArgument, open_folder
from mqlab.pipeline.measure import NotMeasuredError
from mqlab.report import as_json as document
from mqlab.report import print_summary, write_report


def report(
    folder: FolderArgument, as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False
) -> None:
    """Write the report of a run folder from its measures, and print the summary."""
    run_folder = open_folder(folder)
    try:
        page = write_report(run_folder)
    except NotMeasuredError as error:
        fail(f"{error}; first: mqlab measure {folder}", Exit.USAGE)
    if as_json:
        show_json(document(run_folder))
    else:
        print_summary(run_folder, Console(highlight=False))
    say(f"report: {page}")
    fail_on_bad_audits(document(run_folder))


def fail_on_bad_audits(found: dict[str, Any]) -> None:
    """A run whose messages did not all arrive as they must is the first thing to know."""
    if any(audit["status"] in ("failed", "void") for audit in found["audits"]):
        fail("an audit failed: see the report", Exit.AUDIT_FAILED)
