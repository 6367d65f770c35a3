"""What an administrator sees and does: destinations with their counters; purge, move, delete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from mqlab.broker.core import monitoring
from mqlab.broker.core.broker import Core
from mqlab.broker.core.destinations import QUEUE, parse
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.core.messages import Span
from mqlab.broker.core.prepared import overview as prepared_overview
from mqlab.broker.core.queue import Queue
from mqlab.broker.core.selection import chosen
from mqlab.broker.core.selectors import compile_selector
from mqlab.broker.core.serving import cut_off, take


def totals(core: Core) -> dict[str, Any]:
    """Counters of the broker as a whole, and its depth now."""
    queues = [*core.house.all()]
    return {
        "messages": sum(queue.messages for queue in queues),
        "bytes": sum(queue.size for queue in queues),
        "memory": core.desk.memory,
        "held_producers": len(core.flow.held),
        "holds": core.flow.holds,
        "held_ms": core.flow.held_ms + sum(max(0, core.desk.now_us - one.held_since) // 1000 for one in core.flow.held),
        "queues": len(core.house.queues),
        "topics": len(core.house.routing.topics),
        "subscriptions": len(core.house.routing.subscriptions),
        "prepared": len(core.preparing.waiting),
        "sessions": len(core.sessions),
        "disk_full": core.disk_full,
        "monitoring": core.settings.monitoring,
    }


def listed(core: Core, chosen_by: Callable[[Queue], bool] = lambda _: True) -> list[dict[str, Any]]:
    """Every queue and subscription, or those that are chosen, a line each."""
    return [_line(queue) for queue in core.house.all() if chosen_by(queue)]


def shown(core: Core, name: str) -> dict[str, Any]:
    """All about one of them."""
    queue = find(core, name)
    oldest, sources = queue.oldest, {source.full_name for source in queue.feeding}
    return {
        **_line(queue),
        "in_memory": queue.in_memory,
        "full": queue.full,
        "held_producers": sum(one in core.flow.held for source in queue.feeding for one in source.producers),
        "oldest_id": None if oldest is None else oldest.first_id,
        "policy": asdict(queue.policy),
        "counters": asdict(queue.counters),
        "episodes": [one._asdict() for one in core.flow.episodes if one.destination in sources],
    }


def prepared(core: Core) -> list[dict[str, Any]]:
    return prepared_overview(core.preparing)


def purge(core: Core, name: str, selector: str = "") -> int:
    """Messages that nobody has in hand are gone. Returns how many."""
    queue = find(core, name)
    spans = _taken(queue, selector, None)
    core.leaving.forget([(queue, span) for span in spans])
    return sum(span.rows for span in spans)


def move(core: Core, name: str, to: str, selector: str = "", most: int | None = None) -> int:
    """Messages that nobody has in hand go to another queue, in order. Returns how many."""
    queue = find(core, name)
    kind, short = parse(to)
    if kind != QUEUE:
        raise RefusedError("messages are moved to a queue")
    if queue.full_name == to:
        raise RefusedError("a queue's messages are moved to another queue")
    if selector:
        compile_selector(selector)
    target = core.house.queue(short)
    spans = _taken(queue, selector, most)
    if why := core.leaving.lacks_room(spans):
        queue.put_back(spans)
        raise RefusedError(why)
    core.leaving.transfer(queue, spans, target)
    return sum(span.rows for span in spans)


def delete(core: Core, name: str) -> None:
    queue = find(core, name)
    if queue.consumers:
        raise RefusedError(f"{name} has {len(queue.consumers)} consumers: it cannot be deleted while they are there")
    core.leaving.delete(queue)


def find(core: Core, name: str) -> Queue:
    queue = core.house.find(name)
    if queue is None:
        raise RefusedError(f"there is no {name!r}; name a queue (queue:NAME) or a subscription (subscription:NAME)")
    return queue


def _taken(queue: Queue, selector: str, most: int | None) -> list[Span]:
    """Off the line, in order."""
    if not selector and most is None:
        return queue.take_all()
    chooser = compile_selector(selector) if selector else None
    taken: list[Span] = []
    left = queue.messages if most is None else most
    for span in [*queue.spans(), *queue.delayed()]:
        flags = None if chooser is None else chosen(chooser, span)
        if left > 0 and (flags is None or flags.any()):
            taken.append(take(queue, span, flags, left) if span.line is not None else cut_off(span, flags, left))
            left -= taken[-1].rows
    queue.drop_delayed({*taken})
    return taken


def _line(queue: Queue) -> dict[str, Any]:
    subscription = queue.subscription
    about: dict[str, Any] = {
        "name": queue.full_name,
        "messages": queue.messages,
        "bytes": queue.size,
        "consumers": len(queue.consumers),
        "producers": sum(len(source.producers) for source in queue.feeding),
        "temporary": queue.owner is not None,
        "monitoring": monitoring.shown(queue),
    }
    if subscription is not None:
        about |= {
            "topic": f"topic:{subscription.terms.topic}",
            "selector": subscription.terms.selector,
            "durable": subscription.durable,
            "shared": subscription.terms.shared,
        }
    return about
