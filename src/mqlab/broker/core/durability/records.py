"""What the journal says, as values. The store gives them their form on disk.

Ids of messages on a queue grow and are never used twice, so what is on a queue is what was ever put there less what
was ever removed, in whatever order the records are read.
"""

from typing import Any, NamedTuple

from mqlab.wire.native.bodies import Payload


class Declare(NamedTuple):
    """Queue number `queue` has this name; the ids of its messages go on at `next_id`.

    `options` (JSON) are the core's: what a durable subscription subscribes to. A durable subscription replaces one of
    the same name, and all on it.
    """

    queue: int
    name: str
    next_id: int
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed


class Forget(NamedTuple):
    """The queue of this number, and all on it, is gone. Its number is not used again."""

    queue: int


class Put(NamedTuple):
    """These messages are on each of the queues (number, id of the first row there).

    `origin` is the name of the destination they were sent to, where that is not the queue itself, or "".
    A second Put of the same ids says the same: it was carried forward so that an old file can go.
    """

    targets: tuple[tuple[int, int], ...]
    payload: Payload
    origin: str = ""


class Remove(NamedTuple):
    """These messages (first id, rows) have been consumed."""

    queue: int
    ranges: tuple[tuple[int, int], ...]


class Commit(NamedTuple):
    """All of it happened, or none."""

    puts: tuple[Put, ...]
    removes: tuple[Remove, ...]


class Prepare(NamedTuple):
    """The first phase of a global transaction: it can be committed or rolled back, and waits to be told which."""

    xid: str
    puts: tuple[Put, ...]
    removes: tuple[Remove, ...]


class Decide(NamedTuple):
    """The second phase: what was prepared under this name happened, or did not."""

    xid: str
    commit: bool


class Remember(NamedTuple):
    """Ids given by producers, oldest first, that a destination (by name) must know again as duplicates."""

    destination: str
    ids: tuple[str, ...]


class Shut(NamedTuple):
    """The broker stopped in good order: nothing before this was left unsynced."""


Record = Declare | Forget | Put | Remove | Commit | Prepare | Decide | Remember | Shut
