"""`mqlab history`: list, follow and export the measures of all run folders. One module per command.

A command reads options, calls the history of the pipeline and prints the result.
"""

import typer

from mqlab.cli.history.export import export
from mqlab.cli.history.list import list_measures
from mqlab.cli.history.rebuild import rebuild
from mqlab.cli.history.trend import trend

history = typer.Typer(no_args_is_help=True, help="The measures of all run folders: list, trend and export.")
history.command("list")(list_measures)
history.command("trend")(trend)
history.command("export")(export)
history.command("rebuild")(rebuild)

__all__ = ["history"]
