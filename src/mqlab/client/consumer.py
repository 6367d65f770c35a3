"""Receiving: prefetched deliveries, acknowledgement and credit."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal

from mqlab.client.connection import NativeClientConnection
from mqlab.client.errors import ClosedError, MessagingError
from mqlab.client.iteration import MessageIteration
from mqlab.client.message import Delivery, Message, UnreadMessages
from mqlab.client.message_keys import receive_frame
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.frames import FORM, Flag, Frame, Kind

# When messages are acknowledged. auto: when the application asks for the next one. dups_ok: the same, but lazily.
# client: when the application acknowledges all that its session has received. individual: message by message.
# transacted: with the commit.
Acknowledge = Literal["auto", "dups_ok", "client", "individual", "transacted"]

_DELIVER, _ORIGIN = map(int, (Kind.DELIVER, Kind.ORIGIN))
_PERSISTENT = int(Flag.PERSISTENT)
_GRANTS_PER_PREFETCH: Final = 4
_AUTO_ACKNOWLEDGING: Final = frozenset(("auto", "dups_ok", "transacted"))


class Consumer(MessageIteration):
    """Receives from one destination. It holds at most `prefetch` messages; with 0 it asks for each one."""

    def __init__(
        self, connection: NativeClientConnection, session: int, link: int, destination: str, prefetch: int,
        acknowledge: Acknowledge,
    ) -> None:  # fmt: skip
        super().__init__(acknowledges_soon=acknowledge == "auto")
        self.destination = destination
        self.mode = acknowledge
        self._auto_acknowledges = acknowledge in _AUTO_ACKNOWLEDGING
        self._connection = connection
        self._session = session
        self._link = link
        self._prefetch = prefetch
        self._deliveries: deque[Delivery] = deque()
        self._arrival: asyncio.Future[None] | None = None
        # In place of a waiting task: called after each read in which a delivery came, and when the connection is lost.
        self.on_arrival: Callable[[], None] | None = None
        # The deadline of the waiting receive (None: none waits, or without a timeout), and the timer that checks it.
        self._deadline: float | None = None
        self._timed_out = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        # A receive was abandoned, and the broker has not replied to its CANCEL yet.
        self._cancelling: asyncio.Future[None] | None = None
        self._error: MessagingError | None = None
        # The destination to which the messages of the next delivery were sent.
        self._origin = destination
        # The last delivery ids that were taken from `_deliveries`, acknowledged, and replaced by new credit.
        self._taken_id = self._acknowledged_id = self._credited_id = 0
        # Received by the application, and to be acknowledged before the next frame is sent.
        self._batch_done_id = 0
        self._batch_acknowledge_scheduled = False
        self._discarding = False

    @property
    def last_received_id(self) -> int:
        """The last delivery id that the application has received."""
        return self._taken_id - len(self.unread)

    async def receive_batch(self, timeout: float | None = None) -> Delivery:
        """The next delivery, which may have many messages. Raises TimeoutError after `timeout` seconds."""
        if self.unread:
            return self.unread.take_rest()
        return await self._next_delivery(timeout)

    async def receive(
        self, timeout: float | None = None, *, correlation_id: str | None = None, message_id: str | None = None
    ) -> Message:
        """The next message, or the one with that id. Raises TimeoutError after `timeout` seconds."""
        if correlation_id is not None or message_id is not None:
            if self._prefetch:
                raise ValueError("receiving by an id needs a consumer with prefetch 0")
            by_message_id = None if message_id is None else receive_frame(self._link, correlation_id, message_id)
            if self._cancelling is not None:
                await self._wait_for_cancel()
            # These deliveries belong to an abandoned receive.
            if self._deliveries:
                self._return_deliveries()
            if not self._request_message(correlation_id or "", by_message_id):
                await self._wait(timeout)
            return self._take_delivery().message()
        for message in self.unread.messages:
            if self.acknowledge_due:
                self.acknowledge_soon()
            return message
        delivery = await self._next_delivery(timeout)
        if delivery.rows == 1:
            return delivery.message()
        self.unread = UnreadMessages(delivery)
        return next(self.unread.messages)

    # For a requester: its request frame also asks for the reply

    @property
    def can_await_reply(self) -> bool:
        """No delivery is held or under way, and no receive waits."""
        idle = self._arrival is None or self._arrival.done()
        return idle and self._auto_acknowledges and not (
            self._prefetch or self._deliveries or self._cancelling is not None or self._error is not None
        )  # fmt: skip

    def expect_reply(self, correlation_id: str) -> tuple[int, str, int]:
        """The link, the correlation id, and the last delivery id, which the request acknowledges."""
        done = self._acknowledged_id = self._taken_id
        return self._link, correlation_id, done

    async def await_reply(self, timeout: float | None) -> Delivery:
        """The reply. Raises TimeoutError after `timeout` seconds."""
        self._connection.flush_before_wait()
        if not self._deliveries:
            await self._wait(timeout)
        return self._take_delivery()

    # For callbacks of the event loop

    def take_arrived(self) -> list[Delivery]:
        """All deliveries that have arrived, up to a change between redelivered and not. Raises MessagingError."""
        deliveries = self._deliveries
        if not deliveries:
            if self._error is not None:
                raise self._error
            return []
        taken = [self._take_delivery()]
        while deliveries and deliveries[0].redelivered == taken[0].redelivered:
            taken.append(self._take_delivery())
        return taken

    def abandon_receive(self) -> None:
        """Cancel the receive that the last request began: its reply has no receiver any more."""
        if self._error is None and self._cancelling is None:
            self._cancelling = asyncio.ensure_future(self._cancel_receive(return_deliveries=True))

    async def open_delivery(self, timeout: float | None = None) -> None:
        """Wait for the next delivery; its messages are then `unread`."""
        self.unread = UnreadMessages(await self._next_delivery(timeout))

    def acknowledge_soon(self) -> None:
        self.acknowledge_due = False
        self._connection.loop.call_soon(self.acknowledge_all_but_last)

    def acknowledge_all_but_last(self) -> None:
        """Acknowledge everything but the message that the application received last."""
        self.acknowledge_due = True
        if self._error is None and not self._discarding:
            self._acknowledge_up_to(self.last_received_id - 1)

    def acknowledge(self, messages: "Message | Delivery | None" = None) -> None:
        """Acknowledge all that the application has received; in mode `individual` only these messages."""
        if messages is None or self.mode != "individual":
            self._acknowledge_up_to(self.last_received_id)
            return
        first, rows = (messages.delivery_id, 1) if isinstance(messages, Message) else (messages.first, messages.rows)
        self._connection.write(native.header(Kind.ACKNOWLEDGE_ROWS, link=self._link, first=first, amount=rows))

    async def close(self, *, unprocessed: int = 0) -> None:
        """Return all messages that the application has not received, and the last `unprocessed` ones, to the queue."""
        if self._error is None:
            if self._auto_acknowledges:
                self._acknowledge_up_to(self.last_received_id - unprocessed)
            closing = native.header(Kind.CLOSE, link=self._link, first=self.last_received_id)
            await self._connection.call(closing, Kind.CLOSED, link=self._link)
            self.detach()

    # Called by the session for a rollback or recovery: the broker delivers these messages again

    def discard(self) -> None:
        self._discarding = True
        self._deliveries.clear()
        # The application has not received the unread messages. `resume` grants credit for the whole prefetch.
        self._taken_id = self._credited_id = self.last_received_id
        self.unread.discard()

    def resume(self) -> None:
        self._discarding = False
        if self._prefetch:
            self._grant_credit(self._prefetch)

    async def recover(self) -> None:
        """Have all messages that are not acknowledged delivered again."""
        seen_id = self.last_received_id
        self.discard()
        asking = native.header(Kind.ROLLBACK, session=self._session, link=self._link, first=seen_id)
        await self._connection.call(asking, Kind.ROLLED_BACK, session=self._session, link=self._link)
        self.resume()

    @property
    def closed(self) -> bool:
        return self._error is not None

    # Called by the connection

    def detach(self) -> None:
        """The broker has closed this consumer, and delivers its prefetched messages to others."""
        self._connection.detach(self._link)
        self._deliveries.clear()
        self.unread.discard()
        self.lost(ClosedError("the consumer is closed"))

    def handle(self, frame: Frame) -> None:
        kind, flags, delivered, _, first, rows, data = frame
        if kind == _ORIGIN:
            self._origin = str(data, "utf-8")
        elif kind == _DELIVER:
            payload = Payload(data, rows, flags & FORM)
            self.on_delivery(first, payload, delivered, flags & _PERSISTENT > 0, self._origin)

    def on_delivery(self, first: int, payload: Payload, delivered: int, persistent: bool, origin: str) -> None:
        if self._discarding:
            return
        self._deliveries.append(Delivery(first, payload, delivered, persistent, origin))
        if self.on_arrival is not None:
            self._connection.call_after_read(self.on_arrival)
        elif self._arrival is not None:
            self._wake()

    def lost(self, error: MessagingError) -> None:
        self._error = error
        self._stop_timer()
        self._wake()
        if self.on_arrival is not None:
            self._connection.call_after_read(self.on_arrival)

    # Internals

    async def _next_delivery(self, timeout: float | None) -> Delivery:
        if self._deliveries and self._auto_acknowledges and self._error is None:
            # Several deliveries arrived: one acknowledgement covers all that are taken before the next frame is sent.
            if not self._batch_acknowledge_scheduled:
                self._batch_acknowledge_scheduled = True
                self._connection.flush_later(self._acknowledge_batches)
            self._batch_done_id = self._taken_id
        elif not self._request_delivery():
            await self._wait(timeout)
        return self._take_delivery()

    def _request_delivery(self) -> bool:
        """Acknowledge and grant credit for the next delivery. Returns whether one is there; if not, `_wait` for it."""
        # Nothing is unread: the application has received all that was taken.
        if self._auto_acknowledges:
            self._acknowledge_up_to(self._taken_id)
        elif credit := self._credit_up_to(self._taken_id):
            self._grant_credit(credit)
        if self._deliveries:
            return True
        if self._arrival is not None and not self._arrival.done():
            self._raise_busy()
        if not self._prefetch:
            if self._error is not None:
                raise self._error
            self._grant_credit(1)
        self._connection.flush_before_wait()
        return bool(self._deliveries)

    def _request_message(self, correlation_id: str, by_message_id: Frame | None) -> bool:
        """The same as `_request_delivery`, for one message by its id."""
        if self._arrival is not None and not self._arrival.done():
            self._raise_busy()
        if self._error is not None:
            raise self._error
        connection, done = self._connection, 0
        if self._auto_acknowledges and self._taken_id > self._acknowledged_id:
            done = self._acknowledged_id = self._taken_id
        if by_message_id is None:
            connection.receive(self._link, correlation_id, done)
        else:
            connection.send_frame(*by_message_id._replace(first=done))
        connection.flush_before_wait()
        return bool(self._deliveries)

    def _raise_busy(self) -> None:
        raise MessagingError("another receive already waits on this consumer: one at a time")

    async def _wait(self, timeout: float | None) -> None:
        """Wait until there is a delivery to take."""
        self._timed_out = False
        if timeout is not None:
            self._set_timer(timeout)
        try:
            while not self._deliveries:
                if self._error is not None:
                    raise self._error
                if self._timed_out:
                    raise TimeoutError
                arrival = self._arrival = self._connection.loop.create_future()
                await arrival
        except (TimeoutError, asyncio.CancelledError) as error:
            self._deadline = None
            await self._abandon(error)
        finally:
            self._deadline = None

    async def _abandon(self, error: BaseException) -> None:
        """Cancel the receive, and raise the error unless a message was already under way."""
        cancelled = isinstance(error, asyncio.CancelledError)
        if not self._prefetch and self._error is None:
            self._cancelling = asyncio.ensure_future(self._cancel_receive(return_deliveries=cancelled))
            await self._wait_for_cancel()
        # After a cancellation the message is returned, or waits for the next receive.
        if not self._deliveries or cancelled:
            raise error

    async def _cancel_receive(self, *, return_deliveries: bool) -> None:
        # The next use of the connection raises its error.
        with suppress(MessagingError):
            await self._connection.call(native.header(Kind.CANCEL, link=self._link), Kind.CANCELLED, link=self._link)
            if return_deliveries:
                self._return_deliveries()

    async def _wait_for_cancel(self) -> None:
        """Wait until the broker has confirmed that the abandoned receive is cancelled."""
        if self._cancelling is not None:
            self._connection.flush_before_wait()
            await asyncio.shield(self._cancelling)
            self._cancelling = None

    def _return_deliveries(self) -> None:
        """Return deliveries of an abandoned receive, as if the broker had never delivered them."""
        while self._deliveries:
            delivery = self._deliveries.popleft()
            fields = {"session": self._session, "link": self._link, "first": delivery.first, "amount": delivery.rows}
            self._connection.write(native.header(Kind.ROLLBACK, **fields))

    def _take_delivery(self) -> Delivery:
        delivery = self._deliveries.popleft()
        if delivery.first != self._taken_id + 1:
            # The deliveries in between were discarded, and their credit has been granted.
            self._acknowledged_id = self._credited_id = delivery.first - 1
        self._taken_id = delivery.first + delivery.payload.rows - 1
        return delivery

    def _acknowledge_batches(self) -> None:
        self._batch_acknowledge_scheduled = False
        if self._error is None and not self._discarding:
            self._acknowledge_up_to(self._batch_done_id)

    def _acknowledge_up_to(self, done: int) -> None:
        """Acknowledge up to this delivery id, and grant credit for as many messages."""
        if done > self._acknowledged_id:
            self._acknowledged_id = done
            self._connection.acknowledge(self._link, done, self._credit_up_to(done))

    def _credit_up_to(self, done: int) -> int:
        """The credit to grant now that messages up to this delivery id are done: none, or a good part of the prefetch.

        The broker delivers as many messages together as it gets credit for. Small grants would divide deliveries
        further and further, and never join them again: `blocking` then has 90 % fewer messages a second of processor
        time (`bench/cpu_time.py OLD --key blocking`).
        """
        credit = done - self._credited_id
        if credit * _GRANTS_PER_PREFETCH < self._prefetch or credit <= 0 or not self._prefetch:
            return 0
        self._credited_id = done
        return credit

    def _grant_credit(self, messages: int) -> None:
        self._connection.acknowledge(self._link, 0, messages)

    def _set_timer(self, timeout: float) -> None:
        """Most receives end long before their timeout, so a timer that already runs is kept and checks the deadline."""
        self._deadline = self._connection.loop.time() + timeout
        if self._timer is None or self._timer_at > self._deadline:
            self._stop_timer()
            self._start_timer(self._deadline)

    def _start_timer(self, when: float) -> None:
        self._timer_at, self._timer = when, self._connection.loop.call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._deadline is not None and self._deadline > self._connection.loop.time():
            self._start_timer(self._deadline)
        elif self._deadline is not None:
            self._timed_out = True
            self._wake()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        arrival, self._arrival = self._arrival, None
        if arrival is not None and not arrival.done():
            arrival.set_result(None)
