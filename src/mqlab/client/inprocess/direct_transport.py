"""The wire to a broker in the same event loop: what is said most is said by a call, and all before anybody waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, runtime_checkable

from mqlab.client.connection import Receiving
from mqlab.client.errors import MessagingError
from mqlab.client.inprocess.frame_transport import LARGE, BoundWire
from mqlab.wire.native.payload import Buffer, Payload

# How often in a row what is asked for is given at once, if it is there. Without a bound, one who then never has to wait
# would never let anybody else have a turn of the loop.
_AT_ONCE: Final = 64


@runtime_checkable
class Host(Protocol):
    """The broker's side of a connection, as far as it can be called: each does what the frame of that kind does."""

    # Only then: otherwise somebody wants to see frames, or the connection has ended. `changed` hears of a change.
    takes_calls: bool

    def meet(self, receivers: Mapping[int, Receiving], changed: Callable[[], None]) -> None:
        """What is for these links may be delivered by a call, too."""

    def put(self, link: int, first: int, payload: Payload, flags: int) -> None:
        """All that follows from it has happened, too."""

    def acknowledge(self, link: int, up_to: int, room: int, at_once: bool) -> None:
        """All that follows from it, too, if it is to be `at_once`; otherwise with the next `run_effects`."""

    def receive(self, link: int, correlation_id: str, done: int, at_once: bool) -> None:
        """As for `acknowledge`, which it also does, if anything is done."""

    def run_effects(self) -> None: ...


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
            host.acknowledge(link, up_to, room, self._at_once > 0 or self._later())
            self._at_once -= 1

    def receive(self, link: int, correlation_id: str, done: int) -> None:
        host = self._called or self._reached()
        if host is None or not correlation_id.isascii():
            # As a frame it must be text that can be written: half a character is refused.
            super().receive(link, correlation_id, done)
        else:
            host.receive(link, correlation_id, done, self._at_once > 0 or self._later())
            self._at_once -= 1

    def request(self, link: int, first: int, payload: Payload, consumer: int, correlation_id: str, done: int) -> None:
        self.receive(consumer, correlation_id, done)
        self.put(0, link, first, payload, 0)

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
        """Frames leave now or, if that was so too often in a row, with the next turn of the loop."""
        self.held = False
        if self._ready or self._first:
            if self._at_once > 0:
                self._at_once -= 1
                self._hand_over()
            else:
                self._later()

    _hand_over_early = about_to_wait

    def _later(self) -> bool:
        """What was not done at once is, with the next turn of the loop. Returns False: not now."""
        self._flush_soon()
        return False

    def _reached(self) -> Host | None:
        """Whoever can be called now."""
        if self._first:
            self._do_first()
        host = self._host
        if host is None or self._ready or self._transport is None or not host.takes_calls:
            return None
        self._called = host
        return host

    def lose(self, error: MessagingError) -> None:
        super().lose(error)
        self._called = None

    def _ask_again(self) -> None:
        self._called = None

    def _flush_due(self) -> None:
        self._at_once, self._due = _AT_ONCE, False
        self._hand_over()

    def _hand_over(self) -> None:
        if self._first:
            self._do_first()
        if self._ready:
            super()._hand_over()
        elif self._host is not None:
            self._host.run_effects()
