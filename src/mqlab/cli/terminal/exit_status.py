"""The exit code of `run`, `measure` and `report`: that of the worst run of the folders."""

from collections.abc import Sequence

from mqlab.cli.terminal.console import Exit, fail
from mqlab.events.folder import RunFolder
from mqlab.events.schema import INCOMPLETE
from mqlab.json_values import JsonObject
from mqlab.pipeline import schema
from mqlab.pipeline.measure_tables import read_table
from mqlab.report.render.formatting import plain


def exit_with_status(folders: Sequence[RunFolder]) -> None:
    """End the command with the exit code of the worst run; return if every run is clean and complete."""
    exit_with_worst(
        [audit for folder in folders for audit in _judged_audits(folder)],
        measured=any(read_table(folder, "measures") for folder in folders),
        complete=all(folder.meta().get("status") != INCOMPLETE for folder in folders),
    )


def _judged_audits(folder: RunFolder) -> list[JsonObject]:
    """Without those of a capacity search: its runs beyond the limit are meant to fail."""
    searched = {(point["scenario"], point["name"]) for point in folder.meta().get("searched") or ()}
    return [audit for audit in read_table(folder, "audits") if (audit["scenario"], audit["point"]) not in searched]


def exit_with_worst(audits: Sequence[JsonObject], *, measured: bool, complete: bool) -> None:
    """`measured`: whether there is a figure. `complete`: whether every study came to its end."""
    # The first run of each status. A reason may hold what a system said: no control characters of a terminal.
    reasons = {audit["status"]: f" (run {audit['run']}: {plain(audit['reason'] or '')})" for audit in reversed(audits)}
    if schema.FAILED in reasons:
        fail(f"an audit failed{reasons[schema.FAILED]}; see the report", Exit.AUDIT_FAILED)
    if schema.VOID in reasons:
        fail(f"a run is void{reasons[schema.VOID]}; see the report", Exit.AUDIT_FAILED)
    if not measured:
        fail("nothing was measured: no run was valid", Exit.NOTHING_MEASURED)
    if schema.INCOMPLETE in reasons or not complete:
        fail(f"a run is incomplete{reasons.get(schema.INCOMPLETE, '')}; see the report", Exit.SYSTEM_UNAVAILABLE)
