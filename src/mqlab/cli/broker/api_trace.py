"""`mqlab broker api-trace [on|off]`: switch the API trace of a running broker."""

from enum import StrEnum
from typing import Annotated

import typer

from mqlab.cli.broker.common.connection import AsJson, BrokerAdmin, broker_command
from mqlab.cli.broker.common.safe_output import show_result


class ApiTraceSwitch(StrEnum):
    ON = "on"
    OFF = "off"


@broker_command
async def api_trace(
    broker: BrokerAdmin,
    switch: Annotated[ApiTraceSwitch | None, typer.Argument(help="Switch it, until the broker ends.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show whether the API trace is on, or switch it. The broker needs a file for it: --api-trace FILE."""
    words = {ApiTraceSwitch.ON: "yes", ApiTraceSwitch.OFF: "no", None: ""}
    response = await broker.ask("api_trace", on=words[switch])
    show_result(response, f"API trace: {'on' if response['on'] else 'off'}", as_json=as_json)
