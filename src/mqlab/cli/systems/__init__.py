"""`mqlab systems`: list, install, start and stop the systems under test. One module per command.

A command reads options, calls the systems package and prints the result.
"""

import typer

from mqlab.cli.systems.install import install_some
from mqlab.cli.systems.list import list_all
from mqlab.cli.systems.show import show_one
from mqlab.cli.systems.start import start_one
from mqlab.cli.systems.status import show_status
from mqlab.cli.systems.stop import stop_some

systems = typer.Typer(invoke_without_command=True, subcommand_metavar="[COMMAND [ARGS]...]")
systems.callback()(list_all)
systems.command("show")(show_one)
systems.command("install")(install_some)
systems.command("start")(start_one)
systems.command("status")(show_status)
systems.command("stop")(stop_some)

__all__ = ["systems"]
