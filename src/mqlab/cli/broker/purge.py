"""`mqlab broker purge NAME`: messages away."""

from mqlab.cli.broker.connection import AsJson, Asked, NameArgument, SelectorOption, YesOption, make_sure, over_the_wire
from mqlab.cli.broker.escaping import plain, show_plain_json
from mqlab.cli.console import say


@over_the_wire
async def purge(
    broker: Asked, name: NameArgument, selector: SelectorOption = "", yes: YesOption = False, as_json: AsJson = False
) -> None:
    """Remove the messages of a queue or subscription that no consumer has in hand, for good."""
    which = f"the messages of {name} where {selector}" if selector else f"all messages of {name}"
    make_sure(f"Remove {which}? They are lost.", yes=yes)
    found = await broker.ask("purge", name=name, selector=selector)
    if as_json:
        show_plain_json(found)
    else:
        say(plain(f"{found['messages']:,} messages removed from {name}"))
