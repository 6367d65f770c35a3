"""`mqlab broker status`: the counters of a running broker."""

from mqlab.cli.broker.connection import AsJson, Asked, over_the_wire
from mqlab.cli.broker.escaping import show_plain_json
from mqlab.cli.broker.values import values_table
from mqlab.cli.console import show


@over_the_wire
async def status(broker: Asked, as_json: AsJson = False) -> None:
    """Counters since the broker started, and what is in it now."""
    found = await broker.ask("status")
    if as_json:
        show_plain_json(found)
    else:
        show(values_table(found))
