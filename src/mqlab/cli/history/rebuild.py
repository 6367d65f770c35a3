"""`mqlab history rebuild`: write the history again from the run folders."""

from mqlab.cli.history.options import RunsOption
from mqlab.cli.measure import local_path
from mqlab.cli.terminal.console import Exit, fail, io_reason, say
from mqlab.pipeline.history.dataset import history_of, rebuild_history


def rebuild(runs: RunsOption = "runs") -> None:
    """Write the history again from the measures of all run folders. It keeps those of folders that are gone."""
    path = local_path(runs)
    if path is None:
        again = f"mqlab measure {runs.rstrip('/')}/RUN"
        fail(f"{runs}: rebuild reads run folders of this machine; measure each again: {again}", Exit.USAGE)
    try:
        written, reasons = rebuild_history(path)
    except OSError as error:
        fail(f"{history_of(path)} cannot be written: {io_reason(error)}", Exit.INTERNAL)
    for reason in reasons:
        say(f"left out: {reason}")
    if not written:
        fail(f"{runs}: no run folder has measures", Exit.USAGE)
    say(f"history of {len(written)} run folders in {history_of(path)}")
