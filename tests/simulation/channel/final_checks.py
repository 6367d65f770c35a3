"""The end of a simulation of two brokers: the messages that must be left."""

from __future__ import annotations

from mqlab.broker.server.trace.traced_links import TRACE_QUEUE
from simulation.books import Fault

from .books import Books
from .site import Site


def at_rest(site: Site) -> dict[str, object]:
    """What is still to be done there; nothing, if all has arrived and was received."""
    broker = site.broker
    if broker is None:
        return {"broker": f"{site.name} is not there"}
    (status,) = broker.channels.status()
    queues = broker.core.destinations.queues
    # The token of a channel stays, and nobody reads the records of the trace.
    staying = (f"channel.{status['to']}", TRACE_QUEUE.removeprefix("queue:"))
    found: dict[str, object] = {
        name: queue.messages for name, queue in queues.items() if queue.messages and name not in staying
    }
    if status["state"] != "running":
        found["state"] = status["state"], status["reason"]
    if status["in_doubt"]:
        found["in doubt"] = status["in_doubt"]
    return found


def status_is_sound(site: Site, books: Books) -> None:
    assert site.broker is not None
    (status,) = site.broker.channels.status()
    tokens = site.broker.core.destinations.queues[f"channel.{status['to']}"].messages
    if tokens != 1:
        raise Fault(f"{site.name} has {tokens} tokens of the channel from {status['to']}")
    if status["refused"]:
        raise Fault(f"{site.name}: {status['refused']} messages were refused over there")
    if books.lives[status["to"]] == 1 and status["lost"]:
        raise Fault(f"{site.name}: {status['lost']} messages are counted as lost, and nothing happened over there")
    arrived = sum(one.seen > 0 for one in books.sent.values() if one.target.endswith(f"@{status['to']}"))
    if set(books.lives.values()) == {1} and status["messages"] != arrived:
        raise Fault(f"{site.name}: {status['messages']} messages were moved, and {arrived} arrived")
