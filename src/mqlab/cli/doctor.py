"""`mqlab doctor`: what on this machine would spoil a measurement."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mqlab.cli.options import JsonOption, RunsOption
from mqlab.cli.terminal.console import Exit, fail, io_reason, say, show, show_json, table_of
from mqlab.runner.doctor.examination import all_findings, quick_findings
from mqlab.runner.doctor.machine_finding import MachineFinding, worst


def doctor(
    seconds: Annotated[float, typer.Option(min=0.1, max=3600, help="How long other work is watched.")] = 2.0,
    runs: RunsOption = Path("runs"),
    as_json: JsonOption = False,
) -> None:
    """Say what on this machine would spoil a measurement: how much, and its cure."""
    try:
        findings = [*all_findings(runs, seconds)]
    except OSError as error:
        fail(f"the machine cannot be examined: {io_reason(error)}", Exit.INTERNAL)
    if as_json:
        show_json({"findings": [asdict(finding) for finding in findings]})
        return
    show(table_of(("check", "matters", "measured"), map(_row, findings)))
    matters = [finding for finding in findings if finding.cure]
    for finding in matters:
        say(f"{finding.check}: {finding.effect}. Cure: {finding.cure}.")
    if not matters:
        say("Nothing on this machine would spoil a measurement.")


def warn_of_machine(runs: Path, data: Path | None = None) -> None:
    """Say the worst thing that is found within a moment, if there is one. `data`: the folder of the systems' data."""
    try:
        found = worst(quick_findings(runs, data))
    except OSError:
        return  # the run itself says what is wrong with the folder
    if found is not None:
        say(f"This machine: {found}. mqlab doctor tells more.")


def _row(finding: MachineFinding) -> tuple[str, str, str]:
    return (finding.check, {"fine": "no", "unknown": "not known"}.get(finding.weight, finding.weight), finding.measured)
