"""`mqlab broker delete NAME`: a queue or subscription away."""

from mqlab.cli.broker.connection import AsJson, Asked, NameArgument, YesOption, make_sure, over_the_wire
from mqlab.cli.broker.escaping import plain, show_plain_json
from mqlab.cli.console import say


@over_the_wire
async def delete(broker: Asked, name: NameArgument, yes: YesOption = False, as_json: AsJson = False) -> None:
    """Delete a queue or subscription that has no consumers, with the messages in it."""
    make_sure(f"Delete {name}? The messages in it are lost.", yes=yes)
    found = await broker.ask("delete", name=name)
    if as_json:
        show_plain_json(found)
    else:
        say(plain(f"{name} is deleted"))
