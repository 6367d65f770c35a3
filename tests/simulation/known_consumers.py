"""Consumers as the books know them: the messages that they may get, and those that they hold."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from mqlab.broker.core.model.sessions import CoreConsumer

from .copies import Copy, Place


@dataclass(eq=False, repr=False, slots=True)
class Taker:
    consumer: CoreConsumer
    place: Place
    room: int
    colour: str = ""
    exclusive: bool = False
    # It receives by key only: these are the ones it waits for.
    keys: list[str] | None = None
    paused: bool = False
    # It was told that it is open: before, it has no room.
    open: bool = False
    # Delivery ids and what came with them, not acknowledged yet.
    held: deque[tuple[int, Copy]] = field(default_factory=deque)

    def wants(self, copy: Copy) -> bool:
        return self.colour in ("", copy.message.colour)

    @property
    def has_room(self) -> bool:
        return self.room > 0 and not self.paused

    def up_to(self, delivery: int) -> Iterator[Copy]:
        """These leave it."""
        while self.held and self.held[0][0] <= delivery:
            yield self.held.popleft()[1]

    def take(self, delivery: int) -> Copy:
        """This one leaves it."""
        found = next(copy for number, copy in self.held if number == delivery)
        self.held = deque(one for one in self.held if one[0] != delivery)
        return found

    def take_all(self) -> list[tuple[int, Copy]]:
        held, self.held = [*self.held], deque()
        return held
