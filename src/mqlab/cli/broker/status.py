"""`mqlab broker status`: the counters of a running broker."""

from mqlab.cli.broker.common.connection import AsJson, BrokerAdmin, broker_command
from mqlab.cli.broker.common.safe_output import show_plain_json, values_table
from mqlab.cli.terminal.console import show


@broker_command
async def status(broker: BrokerAdmin, as_json: AsJson = False) -> None:
    """Show the counters since the broker started and its present contents."""
    response = await broker.ask("status")
    if as_json:
        show_plain_json(response)
    else:
        show(values_table(response))
