"""`mqlab broker purge NAME`: remove messages."""

from mqlab.cli.broker.common.connection import (
    AsJson,
    BrokerAdmin,
    NameArgument,
    SelectorOption,
    YesOption,
    broker_command,
    confirm,
)
from mqlab.cli.broker.common.safe_output import show_result


@broker_command
async def purge(
    broker: BrokerAdmin,
    name: NameArgument,
    selector: SelectorOption = "",
    yes: YesOption = False,
    as_json: AsJson = False,
) -> None:
    """Remove the messages of a queue or subscription for good, except those delivered to a consumer."""
    which = f"the messages of {name} where {selector}" if selector else f"all messages of {name}"
    confirm(f"Remove {which}? They are lost.", yes=yes)
    response = await broker.ask("purge", name=name, selector=selector)
    show_result(response, f"{response['messages']:,} messages removed from {name}", as_json=as_json)
