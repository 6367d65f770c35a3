"""`mqlab history rebuild`: write the history again from the run folders."""

from pathlib import Path

from mqlab.cli.history.options import RunsOption
from mqlab.cli.terminal.console import Exit, fail, io_reason, say
from mqlab.pipeline.history.dataset import history_of, rebuild_history


def rebuild(runs: RunsOption = Path("runs")) -> None:
    """Write the history again from the measures of all run folders. It keeps those of folders that are gone."""
    try:
        written, reasons = rebuild_history(runs)
    except OSError as error:
        fail(f"{history_of(runs)} cannot be written: {io_reason(error)}", Exit.INTERNAL)
    for reason in reasons:
        say(f"left out: {reason}")
    if not written:
        fail(f"{runs}: no run folder has measures", Exit.USAGE)
    say(f"history of {len(written)} run folders in {history_of(runs)}")
