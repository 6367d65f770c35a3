"""`mqlab broker show NAME`: the state of one queue or subscription."""

from datetime import datetime

from mqlab.cli.broker.common.connection import AsJson, BrokerAdmin, NameArgument, broker_command
from mqlab.cli.broker.common.safe_output import show_plain_json, values_table
from mqlab.cli.terminal.console import show
from mqlab.json_values import JsonObject


@broker_command
async def show_one(broker: BrokerAdmin, name: NameArgument, as_json: AsJson = False) -> None:
    """Show the depth, counters, limits and flow control history of a queue or subscription."""
    response = await broker.ask("show", name=name)
    if as_json:
        show_plain_json(response)
        return
    show(values_table({**response, "episodes": _held_back(response.get("episodes", []))}))


def _held_back(episodes: list[JsonObject]) -> str:
    if not episodes:
        return "producers were never held back"
    last = episodes[-1]
    began = datetime.fromtimestamp(last["began"] / 1000).astimezone().isoformat(timespec="milliseconds")
    lasted = last["ended"] - last["began"]
    return f"producers were held back {len(episodes)} times, the last from {began} for {lasted} ms"
