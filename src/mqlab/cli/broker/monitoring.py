"""`mqlab broker monitoring [LEVEL]`: the level of monitoring of a running broker."""

from enum import StrEnum
from typing import Annotated

import typer

from mqlab.cli.broker.common.connection import AsJson, BrokerAdmin, broker_command
from mqlab.cli.broker.common.safe_output import show_result


class MonitoringLevel(StrEnum):
    OFF = "off"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@broker_command
async def monitoring(
    broker: BrokerAdmin,
    level: Annotated[MonitoringLevel | None, typer.Argument(help="Set this level until the broker ends.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show or set how many messages the broker samples for the figures of queues and channels."""
    response = await broker.ask("monitoring", level=level.value if level else "")
    show_result(response, f"monitoring: {response['level']}", as_json=as_json)
