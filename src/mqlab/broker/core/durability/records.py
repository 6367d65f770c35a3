"""Records of the journal. The store encodes them.

Ids of messages on a queue grow and are never used twice, so a queue has the messages that were ever put there less
those that were ever removed, in whatever order the records are read.
"""

from typing import NamedTuple

from mqlab.json_values import JsonObject
from mqlab.wire.native.bodies import Payload


class Declare(NamedTuple):
    """Queue number `queue` has this name; the ids of its messages continue at `next_id`.

    `options` (JSON) are the terms of a durable subscription, which replaces one of the same name and its messages.
    """

    queue: int
    name: str
    next_id: int
    options: JsonObject = {}  # noqa: RUF012 - never changed


class Forget(NamedTuple):
    """The queue of this number is deleted with its messages. Its number is not used again."""

    queue: int


class Put(NamedTuple):
    """These messages are on each of the queues (number, id of the first row there).

    `origin` is the name of the destination they were sent to, where that is not the queue itself, or "".
    A second Put of the same ids is part of a checkpoint and changes nothing.
    """

    targets: tuple[tuple[int, int], ...]
    payload: Payload
    origin: str = ""


class Remove(NamedTuple):
    """These messages (first id, rows) have been consumed."""

    queue: int
    ranges: tuple[tuple[int, int], ...]


class Commit(NamedTuple):
    """All of these puts and removals took effect, or none."""

    puts: tuple[Put, ...]
    removes: tuple[Remove, ...]


class Prepare(NamedTuple):
    """The first phase of a global transaction, which can be committed or rolled back."""

    xid: str
    puts: tuple[Put, ...]
    removes: tuple[Remove, ...]


class Decide(NamedTuple):
    """The second phase: the prepared transaction of this name is committed or rolled back."""

    xid: str
    commit: bool


class Remember(NamedTuple):
    """Duplicate ids of a destination, oldest first, by which it detects duplicates after a restart."""

    destination: str
    ids: tuple[str, ...]


class Shut(NamedTuple):
    """The broker stopped cleanly: all records before this one are synced."""


Record = Declare | Forget | Put | Remove | Commit | Prepare | Decide | Remember | Shut
