"""The wire to a broker in the same event loop: what is said most is said by a call, and all before anybody waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, runtime_checkable

from mqlab.client.bound import LARGE, BoundWire
from mqlab.client.connection import Receiving
from mqlab.client.errors import MessagingError
from mqlab.wire.payload import Buffer, Payload

# How often in one turn of the loop effects are seen to before somebody waits. Without a bound, one who then never has
# to wait would never let anybody else have a turn.
_AT_ONCE: Final = 64


@runtime_checkable
class Host(Protocol):
    """The broker's side of a connection, as far as it can be called: each does what the frame of that kind does."""

    # Only then: otherwise somebody wants to see frames, or the connection has ended. `changed` hears of a change.
    takes_calls: bool

    def meet(self, receivers: Mapping[int, Receiving], changed: Callable[[], None]) -> None:
        """What is for these links may be delivered by a call, too."""

    def put(self, link: int, first: int, payload: Payload, flags: int) -> None: ...

    def acknowledge(self, link: int, up_to: int, room: int) -> None: ...

    def receive(self, link: int, correlation_id: str) -> None: ...

    def carry_out(self) -> None:
        """All that follows from the calls before."""


class NearWire(BoundWire):
    def __init__(self, host: Host | None) -> None:
        super().__init__()
        self._at_once = _AT_ONCE
        self._host = host
        # Who can be called now: nobody before the frames that were sent earlier.
        self._called: Host | None = None
        if host is not None:
            host.meet(self._receivers, self._ask_again)

    def put(self, session: int, link: int, first: int, payload: Payload, flags: int) -> None:
        host, data = self._called or self._reached(), payload.data
        if host is None or type(data) is not bytes or len(data) >= LARGE:
            super().put(session, link, first, payload, flags)
        else:
            host.put(link, first, payload, flags)

    def acknowledge(self, link: int, up_to: int, room: int) -> None:
        host = self._called or self._reached()
        if host is None:
            super().acknowledge(link, up_to, room)
        else:
            host.acknowledge(link, up_to, room)

    def receive(self, link: int, correlation_id: str) -> None:
        host = self._called or self._reached()
        if host is None or not correlation_id.isascii():
            # As a frame it must be text that can be written: half a character is refused.
            super().receive(link, correlation_id)
        else:
            host.receive(link, correlation_id)

    def soon(self, action: Callable[[], None]) -> None:
        self._called = None
        super().soon(action)

    def send(
        self, kind: int, flags: int, session: int, link: int, first: int, amount: int, payload: Buffer = b""
    ) -> None:
        if self._first:
            self._do_first()
        self._called = None
        super().send(kind, flags, session, link, first, amount, payload)

    def about_to_wait(self) -> None:
        """If it has done so too often in this turn of the loop: at its end."""
        self.held = False
        if self._at_once:
            self._at_once -= 1
            self._hand_over()
            if not self._due:
                self._called = None
        elif not self._due:
            self._flush_soon()

    _hand_over_early = about_to_wait

    def _reached(self) -> Host | None:
        """Whoever can be called. What follows from the calls is seen to in this turn of the loop."""
        if self._first:
            self._do_first()
        host = self._host
        if host is None or self._ready or self._transport is None or not host.takes_calls:
            return None
        if not (self._due or self.held):
            self._flush_soon()
        self._called = host
        return host

    def _lost(self, error: MessagingError) -> None:
        super()._lost(error)
        self._called = None

    def _ask_again(self) -> None:
        self._called = None

    def _flush_due(self) -> None:
        self._at_once, self._due = _AT_ONCE, False
        self._hand_over()
        self._called = None

    def _hand_over(self) -> None:
        if self._first:
            self._do_first()
        if self._ready:
            super()._hand_over()
        elif self._host is not None:
            self._host.carry_out()
