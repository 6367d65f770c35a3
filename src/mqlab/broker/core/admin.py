"""Administration: destinations with their counters; purge, move, delete."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict
from heapq import nsmallest
from typing import Final

from mqlab.broker import limits
from mqlab.broker.core import monitoring
from mqlab.broker.core.broker import Core
from mqlab.broker.core.dispatch.redelivery import requeue
from mqlab.broker.core.dispatch.selection import chosen
from mqlab.broker.core.dispatch.selective import cut_off, take
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.browser_position import BrowserPosition
from mqlab.broker.core.model.destination_names import QUEUE, parse
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.selectors import compile_selector
from mqlab.broker.core.transactions.two_phase_commit import overview as prepared_overview
from mqlab.broker.settings import Level
from mqlab.json_values import JsonObject

# Long work, a slice at each step. It returns the number of messages.
Slices = Generator[None, None, int]
# The cost of evaluating a selector for one message, as a part of a slice.
_SELECTED: Final = 16


def totals(core: Core) -> JsonObject:
    """Counters of the broker as a whole, and how many messages it has now."""
    messages = size = 0
    now = core.context.monotonic_us
    for queue in core.destinations.all_queues():
        messages += queue.messages
        size += queue.size
    return {
        "messages": messages, "bytes": size, "memory": core.context.memory, "held_producers": len(core.flow.held),
        "holds": core.flow.holds,
        "held_ms": core.flow.held_ms + sum(max(0, now - producer.held_since) // 1000 for producer in core.flow.held),
        "queues": len(core.destinations.queues), "topics": len(core.destinations.routing.topics),
        "subscriptions": len(core.destinations.routing.subscriptions), "prepared": len(core.two_phase_commit.waiting),
        "sessions": len(core.sessions), "disk_full": core.disk_full, "monitoring": core.monitoring,
    }  # fmt: skip


def set_monitoring(core: Core, level: Level) -> None:
    """Monitor all queues, those to come as well, at this level until the broker ends."""
    core.monitoring = level
    core.context.sampling_interval = monitoring.EVERY[level]
    for queue in core.destinations.all_queues():
        queue.set_sampling(core.context.sampling_interval)


def list_queues(core: Core, is_chosen: Callable[[Queue], bool] = lambda _: True) -> list[JsonObject]:
    """A summary of each queue and subscription, or of those that are chosen."""
    return [summary(queue) for queue in core.destinations.all_queues() if is_chosen(queue)]


def page(core: Core, after: int) -> tuple[list[Queue], int | None]:
    """Queues and subscriptions with higher numbers, and the last number if there are more; None: there are not."""
    rest = [queue for queue in core.destinations.all_queues() if queue.number > after]
    if len(rest) <= limits.LISTED:
        return rest, None
    queues = nsmallest(limits.LISTED, rest, key=lambda queue: queue.number)
    return queues, queues[-1].number


def describe(core: Core, name: str) -> JsonObject:
    """All figures of a queue or subscription."""
    queue = find(core, name)
    oldest, sources = queue.oldest, {source.full_name for source in queue.sources}
    return {
        **summary(queue),
        "in_memory": queue.in_memory,
        "full": queue.full,
        "held_producers": sum(producer in core.flow.held for source in queue.sources for producer in source.producers),
        "oldest_id": None if oldest is None else oldest.first_id,
        "policy": asdict(queue.policy),
        "episodes": [episode._asdict() for episode in core.flow.episodes if episode.destination in sources],
    }


def list_prepared(core: Core) -> list[JsonObject]:
    return prepared_overview(core.two_phase_commit)


def purge(core: Core, name: str, selector: str = "") -> int:
    """`purge_slices`, all slices at once."""
    return _at_once(purge_slices(core, name, selector))


def move(core: Core, name: str, to: str, selector: str = "", most: int | None = None) -> int:
    """`move_slices`, all slices at once."""
    return _at_once(move_slices(core, name, to, selector, most))


def purge_slices(core: Core, name: str, selector: str = "") -> Slices:
    """Remove messages that no consumer holds. Returns how many."""
    queue, count = find(core, name), 0
    for spans in _taken(queue, selector, None):
        core.removal.remove([(queue, span) for span in spans])
        count += sum(span.rows for span in spans)
        yield
    return count


def move_slices(core: Core, name: str, to: str, selector: str = "", most: int | None = None) -> Slices:
    """Move messages that no consumer holds to another queue, in order. Returns how many."""
    queue, count = find(core, name), 0
    kind, short = parse(to)
    if kind != QUEUE:
        raise CommandError("messages can only be moved to a queue")
    if queue.full_name == to:
        raise CommandError("messages cannot be moved to the queue that they are on")
    if selector:
        compile_selector(selector)
    target = core.destinations.queue(short)
    for spans in _taken(queue, selector, most):
        why = core.removal.reason_no_space(spans)
        if target.closed:
            why = f"{to} was deleted when {count} messages had been moved"
        if why:
            requeue(queue, spans)
            raise CommandError(why)
        core.removal.transfer(queue, spans, target)
        count += sum(span.rows for span in spans)
        yield
    return count


def delete(core: Core, name: str) -> None:
    queue = find(core, name)
    if queue.consumers:
        raise CommandError(f"{name} has {len(queue.consumers)} consumers: it cannot be deleted while they are there")
    core.removal.delete(queue)


def find(core: Core, name: str) -> Queue:
    queue = core.destinations.find(name)
    if queue is None:
        raise CommandError(f"there is no {name!r}; name a queue (queue:NAME) or a subscription (subscription:NAME)")
    return queue


def _at_once(work: Slices) -> int:
    while True:
        try:
            next(work)
        except StopIteration as ended:
            return int(ended.value)


def _taken(queue: Queue, selector: str, most: int | None) -> Iterator[list[Span]]:
    """Take the messages that were there at the beginning out of their lists, in order, a slice at a time."""
    chooser = compile_selector(selector) if selector else None
    left = queue.messages if most is None else most
    position, cost = BrowserPosition(queue), 0
    taken: list[Span] = []
    while left > 0 and (span := position.next_span()) is not None:
        cost += 1 if chooser is None else _SELECTED
        last, flags = span.last_id, None if chooser is None else chosen(chooser, span)
        if flags is None or flags.any():
            taken.append(take(queue, span, flags, left))
            left -= taken[-1].rows
        position.pass_rows(span, last)
        if cost >= limits.SLICE:
            yield taken
            taken, cost = [], 0
    delayed: list[Span] = []
    for span in queue.delayed():
        flags = None if chooser is None else chosen(chooser, span)
        if left > 0 and (flags is None or flags.any()):
            delayed.append(cut_off(span, flags, left))
            left -= delayed[-1].rows
    queue.drop_delayed({*delayed})
    yield taken + delayed


def summary(queue: Queue) -> JsonObject:
    """The figures of a queue or subscription for a list."""
    subscription = queue.subscription
    about: JsonObject = {
        "name": queue.full_name, "messages": queue.messages, "bytes": queue.size, "consumers": len(queue.consumers),
        "producers": sum(len(source.producers) for source in queue.sources), "temporary": queue.owner is not None,
        "monitoring": monitoring.describe(queue), "counters": asdict(queue.counters),
    }  # fmt: skip
    if subscription is not None:
        about |= {
            "topic": f"topic:{subscription.terms.topic}",
            "selector": subscription.terms.selector,
            "durable": subscription.durable,
            "shared": subscription.terms.shared,
        }
    return about
