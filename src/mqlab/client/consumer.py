"""Receiving: deliveries in hand, acknowledgement, room for more."""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Final, Literal

from mqlab.client.connection import Wire
from mqlab.client.errors import ClosedError, MessagingError
from mqlab.client.message import Delivery, Message
from mqlab.client.message_keys import asking_for
from mqlab.wire import native
from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.frames import FORM, Flag, Frame, Kind
from mqlab.wire.native.payload import payload_of

# auto: what was received is done when the next is asked for. dups_ok: the same, told to the broker lazily.
# client: when the application says so, for all its session has received. individual: for each message by itself.
# transacted: with the commit.
Acknowledge = Literal["auto", "dups_ok", "client", "individual", "transacted"]

_DELIVER, _ORIGIN = map(int, (Kind.DELIVER, Kind.ORIGIN))
_PERSISTENT = int(Flag.PERSISTENT)
_BY_ITSELF: Final = frozenset(("auto", "dups_ok", "transacted"))


class Consumer:
    """Receives from one destination, at most `prefetch` messages ahead of its application; 0: only when it asks."""

    # What ends an iteration over it.
    end: type[ClosedError] = ClosedError

    def __init__(
        self, wire: Wire, session: int, link: int, destination: str, prefetch: int, acknowledge: Acknowledge
    ) -> None:
        self.destination = destination
        self.mode = acknowledge
        self._by_itself = acknowledge in _BY_ITSELF
        self._wire = wire
        self._session = session
        self._link = link
        self._prefetch = prefetch
        self._deliveries: deque[Delivery] = deque()
        self._came: asyncio.Future[None] | None = None
        # Until when somebody waits (None: for ever, or nobody does), whether that is over, and what looks after it.
        self._until: float | None = None
        self._late = False
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = 0.0
        # A receive was given up, and the broker has not said yet that it knows.
        self._withdrawal: asyncio.Future[None] | None = None
        self._error: MessagingError | None = None
        # Where what is delivered next was sent to.
        self._origin = destination
        # Delivery ids: taken from the deliveries up to `_taken`; done, as far as the broker knows, up to `_told`; the
        # broker has room back for all up to `_roomed`.
        self._taken = self._told = self._roomed = 0
        # Done, and whether the broker will be told so with the next turn of the loop.
        self._done = 0
        self._telling = False
        # The rest of the delivery that is given out one by one: messages in reverse order.
        self.in_hand: list[Message] = []
        # The broker will be told soon what is done.
        self.settling = False
        self._dropping = False

    @property
    def given(self) -> int:
        """The delivery id up to which messages were given to the application."""
        return self._taken - len(self.in_hand)

    async def receive_batch(self, timeout: float | None = None) -> Delivery:
        """The next messages that came together. Raises TimeoutError if none came in so many seconds."""
        if self.in_hand:
            rest = self.in_hand[-1]
            self.in_hand.clear()
            return rest.source.after(rest.row)
        if self._deliveries and self._by_itself and self._error is None:
            # Several came together: once all that are taken in this turn of the loop are done, the broker is told.
            if not self._telling:
                self._telling = True
                self._wire.loop.call_soon(self._tell_done)
            self._done = self._taken
        elif not self._prepare():
            await self._wait(timeout)
        return self._take()

    def came_with(self, delivery: Delivery) -> list[Delivery]:
        """What is here already after that one, which was received last, and was delivered as often as it."""
        found = []
        while self._deliveries and self._deliveries[0].delivered == delivery.delivered:
            found.append(self._take())
        return found

    async def receive(
        self, timeout: float | None = None, *, correlation_id: str | None = None, message_id: str | None = None
    ) -> Message:
        """The next message, or the one with that id. Raises TimeoutError if none came in so many seconds."""
        if correlation_id is not None or message_id is not None:
            if self._prefetch:
                raise ValueError("receiving by an id needs a consumer with prefetch 0: others get what comes next")
            asking = None if message_id is None else asking_for(self._link, correlation_id, message_id)
            if self._withdrawal is not None:
                await self._withdrawn()
            # What is left of a receive that was given up is another message.
            if self._deliveries:
                self._give_back()
            if not self._ask_for(correlation_id or "", asking):
                await self._wait(timeout)
            return self._take().message()
        if not self.in_hand:
            if not self._prepare():
                await self._wait(timeout)
            self._fill_hand()
        elif self.mode == "auto" and not self.settling:
            self.settling = True
            asyncio.get_running_loop().call_soon(self.settle)
        return self.in_hand.pop()

    # For a requester: the broker is told with the request which message it waits for

    @property
    def can_expect(self) -> bool:
        """Nothing is in its hands or on its way, and nobody waits."""
        idle = self._came is None or self._came.done()
        return idle and self._by_itself and not (
            self._prefetch or self._deliveries or self._withdrawal is not None or self._error is not None
        )  # fmt: skip

    def expecting(self, correlation_id: str) -> tuple[int, str, int]:
        """Its number, what it waits for, and the last delivery id, up to which all is done."""
        done = self._told = self._taken
        return self._link, correlation_id, done

    async def expected(self, timeout: float | None) -> Delivery:
        """What it waits for. Raises TimeoutError if it did not come in so many seconds."""
        self._wire.about_to_wait()
        if not self._deliveries:
            await self._wait(timeout)
        return self._take()

    async def fill_hand(self, timeout: float | None = None) -> None:
        """Take the next delivery apart; `in_hand.pop()` then gives its messages one after the other."""
        if not self._prepare():
            await self._wait(timeout)
        self._fill_hand()

    def _fill_hand(self) -> None:
        messages = self._take().messages()
        messages.reverse()
        self.in_hand = messages

    def settle(self) -> None:
        """Tell the broker that all is done but the message that the application got last."""
        self.settling = False
        if self._error is None and not self._dropping:
            self._tell(self.given - 1)

    def acknowledge(self, what: "Message | Delivery | None" = None) -> None:
        """All that this consumer gave to the application is done; or, with `individual`, just these messages."""
        if what is None or self.mode != "individual":
            self._tell(self.given)
            return
        first, rows = (what.delivery_id, 1) if isinstance(what, Message) else (what.first, what.rows)
        self._wire.write(native.header(Kind.ACKNOWLEDGE_ROWS, link=self._link, first=first, amount=rows))

    async def close(self, *, undone: int = 0) -> None:
        """What was not given to the application goes back to the queue, and so do the last `undone` messages."""
        if self._error is None:
            if self._by_itself:
                self._tell(self.given - undone)
            closing = native.header(Kind.CLOSE, link=self._link, first=self.given)
            await self._wire.ask(closing, Kind.CLOSED, link=self._link)
            self.detach()

    def __aiter__(self) -> "Consumer":
        return self

    async def __anext__(self) -> Message:
        try:
            if self.in_hand:
                return await self.receive()
            # As `receive` does, with a coroutine less to go through.
            if not self._prepare():
                await self._wait(None)
            if self._deliveries[0].payload.rows == 1:
                return self._take().message()
            self._fill_hand()
            return self.in_hand.pop()
        except self.end:
            raise StopAsyncIteration from None

    # For the session: what is in hand, and what is still on its way, will come again.

    def drop(self) -> None:
        self._dropping = True
        self._deliveries.clear()
        # What was in hand was not given.
        self._taken = self.given
        self.in_hand.clear()

    def go_on(self) -> None:
        self._dropping = False
        if self._prefetch:
            self._give_room(self._prefetch)

    async def take_back(self) -> None:
        """All that is not acknowledged comes again."""
        seen = self.given
        self.drop()
        asking = native.header(Kind.ROLLBACK, session=self._session, link=self._link, first=seen)
        await self._wire.ask(asking, Kind.ROLLED_BACK, session=self._session, link=self._link)
        self.go_on()

    @property
    def closed(self) -> bool:
        return self._error is not None

    # As a link of the connection

    def detach(self) -> None:
        """The broker knows it no more; what it had in hand goes to others."""
        self._wire.detach(self._link)
        self._deliveries.clear()
        self.in_hand.clear()
        self.lost(ClosedError("the consumer is closed"))

    def handle(self, frame: Frame) -> None:
        kind, flags, delivered, _, first, rows, data = frame
        if kind == _ORIGIN:
            self._origin = str(data, "utf-8")
        elif kind == _DELIVER:
            payload = payload_of((data, rows, flags & FORM))
            self.delivered(first, payload, delivered, flags & _PERSISTENT > 0, self._origin)

    def delivered(self, first: int, payload: Payload, delivered: int, persistent: bool, origin: str) -> None:
        if self._dropping:
            return
        self._deliveries.append(Delivery(first, payload, delivered, persistent, origin))
        if self._came is not None:
            self._wake()

    def lost(self, error: MessagingError) -> None:
        self._error = error
        self._stop_timer()
        self._wake()

    # The parts

    def _prepare(self) -> bool:
        """Say what is done, and what is wanted. Whether there is a delivery to take; if not, one has to wait for it."""
        if self._by_itself:
            self._tell(self._taken - len(self.in_hand))
        elif self._prefetch and (self.given - self._roomed) * 2 >= self._prefetch:
            self._give_room(self._room_up_to(self.given))
        if self._deliveries:
            return True
        if self._came is not None and not self._came.done():
            self._refuse_another()
        if not self._prefetch:
            if self._error is not None:
                raise self._error
            self._give_room(1)
        self._wire.about_to_wait()
        return bool(self._deliveries)

    def _ask_for(self, correlation_id: str, by_message_id: Frame | None) -> bool:
        """The same as `_prepare`, for just one message; what is done is said in one go with it."""
        if self._came is not None and not self._came.done():
            self._refuse_another()
        if self._error is not None:
            raise self._error
        wire, done = self._wire, 0
        if self._by_itself and self._taken > self._told:
            done = self._told = self._taken
        if by_message_id is None:
            wire.receive(self._link, correlation_id, done)
        else:
            wire.send(*by_message_id._replace(first=done))
        wire.about_to_wait()
        return bool(self._deliveries)

    def _refuse_another(self) -> None:
        raise MessagingError("somebody waits at this consumer already: one at a time can receive")

    async def _wait(self, timeout: float | None) -> None:
        """Until there is a delivery to take."""
        self._late = False
        if timeout is not None:
            self._set_timer(timeout)
        try:
            while not self._deliveries:
                if self._error is not None:
                    raise self._error
                if self._late:
                    raise TimeoutError
                came = self._came = self._wire.loop.create_future()
                await came
        except (TimeoutError, asyncio.CancelledError) as error:
            self._until = None
            await self._gave_up(error)
        finally:
            self._until = None

    async def _gave_up(self, error: BaseException) -> None:
        """Raises what made it give up, unless a message was on its way, and is in time."""
        cancelled = isinstance(error, asyncio.CancelledError)
        if not self._prefetch and self._error is None:
            self._withdrawal = asyncio.ensure_future(self._withdraw(give_back=cancelled))
            await self._withdrawn()
        # For one who was cancelled it goes back, or waits.
        if not self._deliveries or cancelled:
            raise error

    async def _withdraw(self, *, give_back: bool) -> None:
        # Whatever was wrong with the connection is told to whoever uses it next.
        with suppress(MessagingError):
            await self._wire.ask(native.header(Kind.CANCEL, link=self._link), Kind.CANCELLED, link=self._link)
            if give_back:
                self._give_back()

    async def _withdrawn(self) -> None:
        """Nothing is on its way any more for a receive that was given up."""
        if self._withdrawal is not None:
            self._wire.about_to_wait()
            await asyncio.shield(self._withdrawal)
            self._withdrawal = None

    def _give_back(self) -> None:
        """What came for nobody goes back, as if it had never left its queue."""
        while self._deliveries:
            delivery = self._deliveries.popleft()
            about = {"session": self._session, "link": self._link, "first": delivery.first, "amount": delivery.rows}
            self._wire.write(native.header(Kind.ROLLBACK, **about))

    def _take(self) -> Delivery:
        delivery = self._deliveries.popleft()
        if delivery.first != self._taken + 1:
            # What was dropped in between came back to its queue; the room for it is given already.
            self._told = self._roomed = delivery.first - 1
        self._taken = delivery.first + delivery.payload.rows - 1
        return delivery

    def _tell_done(self) -> None:
        self._telling = False
        if self._error is None and not self._dropping:
            self._tell(self._done)

    def _tell(self, done: int) -> None:
        """All up to this delivery id is done; there is room for as many more as were taken."""
        if done > self._told:
            self._told = done
            room = self._room_up_to(done) if self._prefetch else 0
            self._wire.acknowledge(self._link, done, room)

    def _room_up_to(self, done: int) -> int:
        room = done - self._roomed
        if room <= 0:
            return 0
        self._roomed = done
        return room

    def _give_room(self, messages: int) -> None:
        self._wire.acknowledge(self._link, 0, messages)

    def _set_timer(self, timeout: float) -> None:
        """Most receives are over long before their time: a timer that runs already is left to look again then."""
        self._until = self._wire.loop.time() + timeout
        if self._timer is None or self._looks_at > self._until:
            self._stop_timer()
            self._look_again(self._until)

    def _look_again(self, when: float) -> None:
        self._looks_at, self._timer = when, self._wire.loop.call_at(when, self._look_at_the_time)

    def _look_at_the_time(self) -> None:
        self._timer = None
        if self._until is not None and self._until > self._wire.loop.time():
            self._look_again(self._until)
        elif self._until is not None:
            self._late = True
            self._wake()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        came, self._came = self._came, None
        if came is not None and not came.done():
            came.set_result(None)
