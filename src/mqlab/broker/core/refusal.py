"""Reasons to refuse a send before it changes anything."""

from mqlab.broker.core.model.queue import Queue, Topic


def refusal_reason(destination: Queue | Topic, *, persistent: bool, has_store: bool, disk_full: str) -> str:
    """Why the core refuses a send, or "". `disk_full`: why the journal cannot grow now, or ""."""
    if persistent and not has_store:
        return "the broker refuses persistent messages: it was started without a data folder (--data)"
    if persistent and disk_full:
        return f"the broker cannot write persistent messages now: {disk_full}"
    if isinstance(destination, Queue):
        if destination.closed:
            return f"{destination.full_name} is gone"
        full = destination.full and destination.policy.when_full == "refuse"
    else:
        full = any(queue.full and queue.policy.when_full == "refuse" for queue in destination.subscriptions)
    return f"{destination.full_name} is full" if full else ""


def must_stay_single(destination: Queue | Topic) -> bool:
    """Whether single messages for this destination must not be joined into a batch.

    A full queue refuses or drops messages one by one; a receive by id takes one message; and selective consumers take
    turns message by message.
    """
    queues = (destination,) if isinstance(destination, Queue) else destination.subscriptions
    return any(queue.policy.when_full != "hold" or _takes_singles(queue) for queue in queues)


def _takes_singles(queue: Queue) -> bool:
    return queue.receives is not None or (queue.selective and len(queue.consumers) > 1)
