"""What the journal says, as values. The store gives them their form on disk."""

from typing import NamedTuple

from mqlab.wire.bodies import Payload


class Declare(NamedTuple):
    """Queue number `queue` has this name; the ids of its messages go on at `next_id`."""

    queue: int
    name: str
    next_id: int


class Put(NamedTuple):
    """These messages are on the queue, with ids from `first_id` on."""

    queue: int
    first_id: int
    payload: Payload


class Remove(NamedTuple):
    """These messages (first id, rows) have been consumed."""

    queue: int
    ranges: tuple[tuple[int, int], ...]


class Commit(NamedTuple):
    """All of it happened, or none."""

    puts: tuple[Put, ...]
    removes: tuple[Remove, ...]


class Shut(NamedTuple):
    """The broker stopped in good order: nothing before this was left unsynced."""


Record = Declare | Put | Remove | Commit | Shut
