"""Why a send is refused before anything is done with it."""

from mqlab.broker.core.queue import Queue
from mqlab.broker.core.routing import Topic


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
