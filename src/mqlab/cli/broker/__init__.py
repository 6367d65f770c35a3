"""`mqlab broker`: run the embedded broker, administer one that runs, examine its files. One file a subject.

A command reads options, calls the broker's packages or the client library, and prints the result.
"""

import typer

from mqlab.cli.broker.api_trace import api_trace
from mqlab.cli.broker.browse import browse
from mqlab.cli.broker.channels import channels
from mqlab.cli.broker.check import check
from mqlab.cli.broker.example_config import example_config
from mqlab.cli.broker.monitoring import monitoring
from mqlab.cli.broker.page import page
from mqlab.cli.broker.queues import delete, list_all, move, purge, show_one
from mqlab.cli.broker.run import run_server
from mqlab.cli.broker.status import status
from mqlab.cli.broker.trace import trace
from mqlab.cli.broker.transactions import transactions
from mqlab.cli.broker.users import users

_RUNNING, _FILES = "A running broker", "Files of a broker"

broker = typer.Typer(invoke_without_command=True, subcommand_metavar="[COMMAND [ARGS]...]")
broker.callback()(run_server)
for name, command in {
    "status": status, "list": list_all, "show": show_one, "browse": browse, "purge": purge, "move": move,
    "delete": delete, "page": page, "transactions": transactions, "channels": channels,
    "monitoring": monitoring, "trace": trace, "api-trace": api_trace,
}.items():  # fmt: skip
    broker.command(name, rich_help_panel=_RUNNING)(command)
broker.add_typer(users, name="users", rich_help_panel=_FILES)
broker.command("check", rich_help_panel=_FILES)(check)
broker.command("example-config", rich_help_panel=_FILES)(example_config)

__all__ = ["broker"]
