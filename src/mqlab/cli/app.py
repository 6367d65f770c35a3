"""The command line program: one module a command, which is imported only when the command is used."""

import os
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Annotated, Final

import typer

from mqlab.cli.terminal.console import Exit, exit_at_once, io_reason, print_error

# Every command, and the first line of its help, so that the list of commands needs none of their modules.
COMMANDS: Final[Mapping[str, str]] = {
    "demo": "Show in about two minutes what the lab does: the embedded broker beside the installed systems.",
    "studies": "List the built-in studies, which run by name.",
    "systems": "List the systems. A command shows, installs, starts or stops one.",
    "plan": "Print the points of a study, their runs and the estimated time on one system.",
    "init": "Write an example study with an explanation of every line. An existing file is not overwritten.",
    "run": "Run studies on systems, measure with Spark and write the reports.",
    "compare": "Compare two systems, two settings of one, or two runs, at every point. A limit of --fail-if may "
    "be +10%.",
    "overhead": "Measure the cost of settings.",
    "capacity": "Find the highest rate at which a latency goal holds, with a clean audit and a steady state.",
    "measure": "Compute the measures of run folders from their events and replace existing measures.",
    "report": "Write the reports of run folders from their measures and print the summaries.",
    "history": "The measures of all run folders: list, trend and export.",
    "conformance": "Start a system and test every feature: works, lacks (with the reason) or fails "
    "(with the observation).",
    "doctor": "Say what on this machine would spoil a measurement: how much, and its cure.",
    "serve": "Serve the page on this machine until Ctrl-C. Its address has the token that starting and stopping runs "
    "needs.",
    "docs": "Open the documentation in the browser. It is part of the package and needs no network.",
    "broker": "Run the embedded broker until Ctrl-C or SIGTERM. A command administers a running broker or a broker's "
    "files.",
}
_EXPERIMENTS: Final = {"demo", "compare", "overhead", "capacity"}
_NO_OUTPUT: Final = "the output cannot be written"
# How the shells tell a program what was typed: zsh and fish, bash.
_TYPED: Final = ("_TYPER_COMPLETE_ARGS", "COMP_WORDS")


def app_with(commands: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the program with these commands; of the others it knows the names, and imports no modules."""
    app = typer.Typer(
        name="mqlab", no_args_is_help=True, pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    app.callback()(_about)
    imported = {*commands}
    for name, help_line in COMMANDS.items():
        if name not in imported:
            app.command(name, help=help_line)(_not_imported)
            continue
        package = "mqlab.cli.experiments" if name in _EXPERIMENTS else "mqlab.cli"
        command = getattr(import_module(f"{package}.{name}"), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command()(command)
    return app


def _not_imported() -> None:
    raise AssertionError("its module was not imported")


def _show_version(wanted: bool) -> None:
    if wanted:
        from mqlab import __version__  # it reads the metadata of the package

        typer.echo(f"mqlab {__version__}")
        raise typer.Exit


def _about(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A messaging performance lab: runs published broker studies and your own, and accounts for every message."""


def main() -> None:
    # Import only the modules of the command: a broker, for example, needs neither Spark nor charts.
    code: str | int | None = Exit.OK
    try:
        app_with(typed_command(sys.argv, os.environ))(prog_name="mqlab")
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:  # while the command is imported
        print_error("interrupted")
        code = Exit.INTERRUPTED
    except OSError as error:
        code = Exit.INTERNAL
        print_error(f"{'a file cannot be used' if error.filename else _NO_OUTPUT}: {io_reason(error)}")
    if code == Exit.INTERRUPTED:
        exit_at_once()
    sys.exit(code if _flushed() else Exit.INTERNAL)


def typed_command(arguments: list[str], environment: Mapping[str, str]) -> list[str]:
    """The command that was typed, or that a shell completes; [] if there is none."""
    texts = (environment[name] for name in _TYPED if name in environment)
    typed = next(texts, "").split() if "_MQLAB_COMPLETE" in environment else arguments
    return typed[1:2]


def _flushed() -> bool:
    """Return whether stdout could be flushed. Python itself would print a traceback."""
    try:
        sys.stdout.flush()
        return True
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # the reader, such as `head`, has ended
            print_error(f"{_NO_OUTPUT}: {io_reason(error)}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
