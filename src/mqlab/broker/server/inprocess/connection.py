"""The broker's side of a connection without a socket: frames in, frames out, and all rules of the native protocol."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from mqlab.broker.core import effects
from mqlab.broker.core.dispatch.correlation_index import Key
from mqlab.broker.core.model.sessions import Consumer
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.native.connection import NativeServerConnection
from mqlab.broker.server.native.frame_reader import BROKEN_RULES
from mqlab.broker.server.native.refusal_frames import REFUSALS, refusal
from mqlab.client.connection import Receiving
from mqlab.client.inprocess.pipe import End, frames_of
from mqlab.wire.native.bodies import COLUMNS, SINGLE, Buffer, Payload, validate
from mqlab.wire.native.columns import decode_single
from mqlab.wire.native.frames import Frame, Kind, ProtocolError

_WITH_HEADERS: Final = SINGLE | COLUMNS


class InProcessConnection(NativeServerConnection):
    """A client in the broker's process. What it is given is the broker's own memory, so it can only read it."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._frame_limit = broker.settings.frame_limit
        self._ready: list[Frame] = []
        # The links of a client in the broker's own event loop, and who wants to know whether it takes calls.
        self._receivers: Mapping[int, Receiving] = {}
        self._changed: Callable[[], None] | None = None
        self.takes_calls = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, End)
        self._end = transport
        super().connection_made(transport)

    def _guard_reading(self) -> None:
        """There is no socket of its own to be read."""

    def _has_time(self) -> bool:
        """Whoever hands frames over goes on when they are handled: the time is looked at there."""
        return True

    # From a client in the same event loop: calls in place of frames

    def meet(self, receivers: Mapping[int, Receiving], changed: Callable[[], None]) -> None:
        self._receivers, self._changed = receivers, changed

    def _update_fast_path(self) -> None:
        super()._update_fast_path()
        self.takes_calls = self._changed is not None and self._untraced
        if self._changed is not None:
            self._changed()

    def put(self, link: int, first: int, payload: Payload, flags: int) -> None:
        self._broker.update_clock()
        producer = self._producers.get(link)
        _, rows, form = payload
        try:
            if producer is None or flags or form != _WITH_HEADERS or rows != 1:
                self._take(link, first, payload, flags, validate(payload))
            else:
                # As `_take` does, for what is sent most: that it can be read is all there is to check.
                headers = decode_single(payload).values
                self._core.send(producer, payload, first, persistent=False, confirm=False, headers=headers)
        except REFUSALS as error:
            self._write(refusal(Frame(Kind.SEND, flags, 0, link, first, payload.rows, b""), error))
        except BROKEN_RULES as error:
            self.fail("protocol", str(error))
        self._broker.run_effects()

    def acknowledge(self, link: int, up_to: int, room: int, at_once: bool) -> None:
        self._broker.update_clock()
        try:
            self._core.acknowledge(self._consumers.get(link) or self._consumer_of(link), up_to, room)
        except REFUSALS as error:
            self._write(refusal(Frame(Kind.ACKNOWLEDGE, 0, 0, link, up_to, room, b""), error))
        except BROKEN_RULES as error:
            self.fail("protocol", str(error))
        if at_once and (self._core.effects or self._broker.unsent or self._core.wake_times):
            self._broker.run_effects()

    def receive(self, link: int, correlation_id: str, done: int, at_once: bool) -> None:
        self._broker.update_clock()
        try:
            consumer = self._consumers.get(link) or self._consumer_of(link)
            if done:
                self._core.acknowledge(consumer, done, 0)
            self._core.receive(consumer, Key("correlation_id", correlation_id))
        except REFUSALS as error:
            self._write(refusal(Frame(Kind.RECEIVE, 0, 0, link, 0, 0, b""), error))
        except BROKEN_RULES as error:
            self.fail("protocol", str(error))
        if at_once and (self._core.effects or self._broker.unsent or self._core.wake_times):
            self._broker.run_effects()

    def run_effects(self) -> None:
        self._broker.run_effects()

    def _consumer_of(self, link: int) -> Consumer:
        consumer = self._consumers.get(link)
        if consumer is None:
            raise ProtocolError(f"there is no consumer {link}")
        return consumer

    # Effects

    def deliver(self, effect: effects.Deliver) -> None:
        consumer, first, span = effect
        link, payload = consumer.link, span.encoded()
        receiver = self._receivers.get(link)
        if receiver is None or self._ready or not self.takes_calls or type(payload.data) is not bytes:
            super().deliver(effect)
        else:
            receiver.delivered(first, payload, span.delivered, span.persistent, span.origin or self._names[link])

    def flush(self) -> None:
        ready, self._ready = self._ready, []
        if self.call_recorder is not None:
            self.call_recorder.frames_sent(ready)
        self._end.send(ready)

    def _kept(self, view: Buffer) -> Buffer:
        if len(view) > self._frame_limit:
            raise ProtocolError(f"a frame of {len(view)} bytes; the limit is {self._frame_limit}")
        return view

    def _put(self, kind: int, flags: int, session: int, link: int, first: int, amount: int, payload: Buffer) -> None:
        if not self._ready:
            self._broker.unsent.append(self)
        if type(payload) is memoryview:
            payload = payload.toreadonly()
        self._ready.append(Frame(kind, flags, session, link, first, amount, payload))

    def _write(self, data: Buffer) -> None:
        for frame in frames_of((data,)):
            self._put(*frame)
