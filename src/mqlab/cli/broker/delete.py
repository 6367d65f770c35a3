"""`mqlab broker delete NAME`: delete a queue or subscription."""

from mqlab.cli.broker.common.connection import AsJson, BrokerAdmin, NameArgument, YesOption, broker_command, confirm
from mqlab.cli.broker.common.safe_output import plain, show_plain_json
from mqlab.cli.console import say


@broker_command
async def delete(broker: BrokerAdmin, name: NameArgument, yes: YesOption = False, as_json: AsJson = False) -> None:
    """Delete a queue or subscription that has no consumers, with the messages in it."""
    confirm(f"Delete {name}? The messages in it are lost.", yes=yes)
    response = await broker.ask("delete", name=name)
    if as_json:
        show_plain_json(response)
    else:
        say(plain(f"{name} is deleted"))
