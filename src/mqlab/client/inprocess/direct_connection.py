"""A client's connection to a broker in the same event loop: calls replace the most frequent frames."""

from collections.abc import Callable
from typing import Final

from mqlab.client.connection import ClientLink
from mqlab.client.errors import MessagingError
from mqlab.client.inprocess.endpoint import DeliveryReceiver, DirectEndpoint
from mqlab.client.inprocess.frame_connection import LARGE_BYTES, FrameConnection
from mqlab.wire.native.payload import Buffer, Payload

# How many calls in a row take effect at once. Without a bound, a client that never has to wait would keep the loop from
# all other tasks.
_MAX_IMMEDIATE: Final = 64


class DirectConnection(FrameConnection):
    """`endpoint`: the broker's side, or None if it only takes frames."""

    def __init__(self, endpoint: DirectEndpoint | None) -> None:
        super().__init__()
        self._immediate_left = _MAX_IMMEDIATE
        self._endpoint = endpoint
        # The endpoint while it can be called: not before frames that were sent earlier have left.
        self._callable: DirectEndpoint | None = None
        self._receivers: dict[int, DeliveryReceiver] = {}
        if endpoint is not None:
            endpoint.attach_client(self._receivers, self._reset_callable)

    def attach(self, number: int, link: ClientLink) -> None:
        super().attach(number, link)
        if isinstance(link, DeliveryReceiver):
            self._receivers[number] = link

    def detach(self, number: int) -> None:
        super().detach(number)
        self._receivers.pop(number, None)

    def send_messages(self, session: int, link: int, first: int, payload: Payload, flags: int) -> None:
        endpoint, data = self._callable or self._find_callable(), payload.data
        if endpoint is None or type(data) is not bytes or len(data) >= LARGE_BYTES:
            super().send_messages(session, link, first, payload, flags)
        else:
            endpoint.send(link, first, payload, flags)

    def acknowledge(self, link: int, up_to: int, credit: int) -> None:
        endpoint = self._callable or self._find_callable()
        if endpoint is None:
            super().acknowledge(link, up_to, credit)
        else:
            endpoint.acknowledge(link, up_to, credit, self._immediate_left > 0 or self._defer())
            self._immediate_left -= 1

    def receive(self, link: int, correlation_id: str, done: int) -> None:
        endpoint = self._callable or self._find_callable()
        if endpoint is None or not correlation_id.isascii():
            # Encoding the frame refuses a text with half of a surrogate pair.
            super().receive(link, correlation_id, done)
        else:
            endpoint.receive(link, correlation_id, done, self._immediate_left > 0 or self._defer())
            self._immediate_left -= 1

    def send_request(
        self, link: int, first: int, payload: Payload, consumer: int, correlation_id: str, done: int
    ) -> None:
        self.receive(consumer, correlation_id, done)
        self.send_messages(0, link, first, payload, 0)

    def flush_later(self, action: Callable[[], None]) -> None:
        self._callable = None
        super().flush_later(action)

    def send_frame(
        self, kind: int, flags: int, session: int, link: int, first: int, amount: int, payload: Buffer = b""
    ) -> None:
        if self._before_send:
            self._run_before_send()
        self._callable = None
        super().send_frame(kind, flags, session, link, first, amount, payload)

    def flush_before_wait(self) -> None:
        """Write frames now or, after too many times in a row, with the next turn of the loop."""
        self.hold_flush = False
        if self._unsent_frames or self._before_send:
            if self._immediate_left > 0:
                self._immediate_left -= 1
                self._flush()
            else:
                self._defer()

    _write_large = flush_before_wait

    def _defer(self) -> bool:
        """Leave the effects to the next turn of the loop. Returns False: not immediate."""
        self._schedule_flush()
        return False

    def _find_callable(self) -> DirectEndpoint | None:
        if self._before_send:
            self._run_before_send()
        endpoint = self._endpoint
        if endpoint is None or self._unsent_frames or self._transport is None or not endpoint.accepts_calls:
            return None
        self._callable = endpoint
        return endpoint

    def disconnect(self, error: MessagingError) -> None:
        super().disconnect(error)
        self._callable = None

    def _reset_callable(self) -> None:
        self._callable = None

    def _flush_now(self) -> None:
        self._immediate_left, self._flush_scheduled = _MAX_IMMEDIATE, False
        self._flush()

    def _write_unsent(self) -> None:
        if self._unsent_frames:
            super()._write_unsent()
        elif self._endpoint is not None:
            self._endpoint.run_effects()
