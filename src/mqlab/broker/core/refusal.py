"""Why a send is refused before anything is done with it."""

from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.routing.topics import Topic


def reason_against(destination: Queue | Topic, *, persistent: bool, keeps: bool, disk_full: str) -> str:
    """Why, or "". `keeps`: there is a disk; `disk_full`: why it takes nothing now, or ""."""
    if persistent and not keeps:
        return "this broker keeps nothing on disk: it was started without a data folder"
    if persistent and disk_full:
        return f"the disk takes no persistent message now: {disk_full}"
    if isinstance(destination, Queue):
        if destination.closed:
            return f"{destination.full_name} is gone"
        full = destination.full and destination.policy.when_full == "refuse"
    else:
        full = any(queue.full and queue.policy.when_full == "refuse" for queue in destination.subscriptions)
    return f"{destination.full_name} is full" if full else ""


def must_stay_single(destination: Queue | Topic) -> bool:
    """Whether it matters there that messages come one by one, and not as one batch.

    What is full refuses the next message, or drops the oldest for it; somebody asks for messages by their ids; or
    several consumers choose among them, and take turns.
    """
    queues = (destination,) if isinstance(destination, Queue) else destination.subscriptions
    return any(queue.policy.when_full != "hold" or _is_chosen_from(queue) for queue in queues)


def _is_chosen_from(queue: Queue) -> bool:
    return queue.finding is not None or (queue.selective and len(queue.consumers) > 1)
