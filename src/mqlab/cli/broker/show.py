"""`mqlab broker show NAME`: all about one queue or subscription."""

from datetime import datetime
from typing import Any

from mqlab.cli.broker.connection import AsJson, Asked, NameArgument, over_the_wire
from mqlab.cli.broker.escaping import show_plain_json
from mqlab.cli.broker.values import values_table
from mqlab.cli.console import show


@over_the_wire
async def show_one(broker: Asked, name: NameArgument, as_json: AsJson = False) -> None:
    """Show a queue or subscription: depth, counters since the start, limits, when its producers were held back."""
    found = await broker.ask("show", name=name)
    if as_json:
        show_plain_json(found)
        return
    show(values_table({**found, "episodes": _held_back(found.get("episodes", []))}))


def _held_back(episodes: list[dict[str, Any]]) -> str:
    if not episodes:
        return "producers were never held back"
    last = episodes[-1]
    began = datetime.fromtimestamp(last["began"] / 1000).astimezone().isoformat(timespec="milliseconds")
    lasted = last["ended"] - last["began"]
    return f"producers were held back {len(episodes)} times, the last from {began} for {lasted} ms"
