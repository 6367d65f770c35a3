"""The command line: one file a command, put together here."""

import typer

from mqlab.cli.broker import broker
from mqlab.cli.measure import measure
from mqlab.cli.plan import plan
from mqlab.cli.report import report
from mqlab.cli.run import run
from mqlab.cli.studies import studies
from mqlab.cli.systems import systems

app = typer.Typer(
    name="mqlab",
    help="A messaging performance lab: published broker studies, and your own, with every message accounted for.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (studies, systems, plan, run, measure, report, broker):
    app.command()(command)


def main() -> None:
    app()
