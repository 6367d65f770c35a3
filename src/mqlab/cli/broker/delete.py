"""`mqlab broker delete NAME`: delete a queue or subscription."""

from mqlab.cli.broker.common.connection import AsJson, BrokerAdmin, NameArgument, YesOption, broker_command, confirm
from mqlab.cli.broker.common.safe_output import show_result


@broker_command
async def delete(broker: BrokerAdmin, name: NameArgument, yes: YesOption = False, as_json: AsJson = False) -> None:
    """Delete a queue or subscription that has no consumers, with the messages in it."""
    confirm(f"Delete {name}? The messages in it are lost.", yes=yes)
    response = await broker.ask("delete", name=name)
    show_result(response, f"{name} is deleted", as_json=as_json)
