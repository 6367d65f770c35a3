"""What an administrator sees and does: destinations with their counters; purge, move, delete."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict
from heapq import nsmallest
from typing import Any, Final

from mqlab.broker import limits
from mqlab.broker.core import monitoring
from mqlab.broker.core.broker import Core
from mqlab.broker.core.dispatch.browser import Browsing
from mqlab.broker.core.dispatch.redelivery import put_back
from mqlab.broker.core.dispatch.selection import chosen
from mqlab.broker.core.dispatch.selective import cut_off, take
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.core.model.destination_names import QUEUE, parse
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.selectors import compile_selector
from mqlab.broker.core.transactions.two_phase_commit import overview as prepared_overview

# Long work, a slice at a time. It returns the number of messages.
Slices = Generator[None, None, int]
# What it costs of a slice to evaluate a selector for a message.
_SELECTED: Final = 16


def totals(core: Core) -> dict[str, Any]:
    """Counters of the broker as a whole, and its depth now."""
    messages = size = 0
    for queue in core.destinations.all_queues():
        messages += queue.messages
        size += queue.size
    return {
        "messages": messages,
        "bytes": size,
        "memory": core.context.memory,
        "held_producers": len(core.flow.held),
        "holds": core.flow.holds,
        "held_ms": core.flow.held_ms
        + sum(max(0, core.context.monotonic_us - one.held_since) // 1000 for one in core.flow.held),
        "queues": len(core.destinations.queues),
        "topics": len(core.destinations.routing.topics),
        "subscriptions": len(core.destinations.routing.subscriptions),
        "prepared": len(core.two_phase_commit.waiting),
        "sessions": len(core.sessions),
        "disk_full": core.disk_full,
        "monitoring": core.settings.monitoring,
    }


def list_queues(core: Core, chosen_by: Callable[[Queue], bool] = lambda _: True) -> list[dict[str, Any]]:
    """Every queue and subscription, or those that are chosen, a line each."""
    return [summary(queue) for queue in core.destinations.all_queues() if chosen_by(queue)]


def page(core: Core, after: int) -> tuple[list[Queue], int | None]:
    """Some queues and subscriptions, and after which number the others follow; None: there are no others."""
    rest = [queue for queue in core.destinations.all_queues() if queue.number > after]
    if len(rest) <= limits.LISTED:
        return rest, None
    found = nsmallest(limits.LISTED, rest, key=lambda queue: queue.number)
    return found, found[-1].number


def describe(core: Core, name: str) -> dict[str, Any]:
    """All about one of them."""
    queue = find(core, name)
    oldest, sources = queue.oldest, {source.full_name for source in queue.feeding}
    return {
        **summary(queue),
        "in_memory": queue.in_memory,
        "full": queue.full,
        "held_producers": sum(one in core.flow.held for source in queue.feeding for one in source.producers),
        "oldest_id": None if oldest is None else oldest.first_id,
        "policy": asdict(queue.policy),
        "counters": asdict(queue.counters),
        "episodes": [one._asdict() for one in core.flow.episodes if one.destination in sources],
    }


def list_prepared(core: Core) -> list[dict[str, Any]]:
    return prepared_overview(core.two_phase_commit)


def purge(core: Core, name: str, selector: str = "") -> int:
    """The same as `purge_slices`, at once."""
    return _at_once(purge_slices(core, name, selector))


def move(core: Core, name: str, to: str, selector: str = "", most: int | None = None) -> int:
    """The same as `move_slices`, at once."""
    return _at_once(move_slices(core, name, to, selector, most))


def purge_slices(core: Core, name: str, selector: str = "") -> Slices:
    """Messages that nobody has in hand are gone. Returns how many."""
    queue, count = find(core, name), 0
    for spans in _taken(queue, selector, None):
        core.removal.forget([(queue, span) for span in spans])
        count += sum(span.rows for span in spans)
        yield
    return count


def move_slices(core: Core, name: str, to: str, selector: str = "", most: int | None = None) -> Slices:
    """Messages that nobody has in hand go to another queue, in order. Returns how many."""
    queue, count = find(core, name), 0
    kind, short = parse(to)
    if kind != QUEUE:
        raise RefusedError("messages are moved to a queue")
    if queue.full_name == to:
        raise RefusedError("a queue's messages are moved to another queue")
    if selector:
        compile_selector(selector)
    target = core.destinations.queue(short)
    for spans in _taken(queue, selector, most):
        why = core.removal.lacks_room(spans)
        if target.closed:
            why = f"{to} was deleted when {count} messages had been moved"
        if why:
            put_back(queue, spans)
            raise RefusedError(why)
        core.removal.transfer(queue, spans, target)
        count += sum(span.rows for span in spans)
        yield
    return count


def delete(core: Core, name: str) -> None:
    queue = find(core, name)
    if queue.consumers:
        raise RefusedError(f"{name} has {len(queue.consumers)} consumers: it cannot be deleted while they are there")
    core.removal.delete(queue)


def find(core: Core, name: str) -> Queue:
    queue = core.destinations.find(name)
    if queue is None:
        raise RefusedError(f"there is no {name!r}; name a queue (queue:NAME) or a subscription (subscription:NAME)")
    return queue


def _at_once(work: Slices) -> int:
    while True:
        try:
            next(work)
        except StopIteration as ended:
            return int(ended.value)


def _taken(queue: Queue, selector: str, most: int | None) -> Iterator[list[Span]]:
    """Off the line, in order, a slice at a time: what was there when it began, and nobody has taken since."""
    chooser = compile_selector(selector) if selector else None
    left = queue.messages if most is None else most
    place, looks = Browsing(queue), 0
    taken: list[Span] = []
    while left > 0 and (span := place.next_span()) is not None:
        looks += 1 if chooser is None else _SELECTED
        last, flags = span.last_id, None if chooser is None else chosen(chooser, span)
        if flags is None or flags.any():
            taken.append(take(queue, span, flags, left))
            left -= taken[-1].rows
        place.pass_rows(span, last)
        if looks >= limits.SLICE:
            yield taken
            taken, looks = [], 0
    late: list[Span] = []
    for span in queue.delayed():
        flags = None if chooser is None else chosen(chooser, span)
        if left > 0 and (flags is None or flags.any()):
            late.append(cut_off(span, flags, left))
            left -= late[-1].rows
    queue.drop_delayed({*late})
    yield taken + late


def summary(queue: Queue) -> dict[str, Any]:
    """What a list says of it."""
    subscription = queue.subscription
    about: dict[str, Any] = {
        "name": queue.full_name,
        "messages": queue.messages,
        "bytes": queue.size,
        "consumers": len(queue.consumers),
        "producers": sum(len(source.producers) for source in queue.feeding),
        "temporary": queue.owner is not None,
        "monitoring": monitoring.describe(queue),
    }
    if subscription is not None:
        about |= {
            "topic": f"topic:{subscription.terms.topic}",
            "selector": subscription.terms.selector,
            "durable": subscription.durable,
            "shared": subscription.terms.shared,
        }
    return about
