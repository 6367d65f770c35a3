"""The broker's endpoint of an in-process connection: the native protocol without a socket."""

import asyncio
from collections.abc import Callable, Mapping

from mqlab.broker.core import effects
from mqlab.broker.core.dispatch.correlation_index import Key
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.native.connection import NativeServerConnection
from mqlab.broker.server.native.frame_reader import PROTOCOL_ERRORS
from mqlab.broker.server.native.refusal_frames import REFUSALS, refusal
from mqlab.client.inprocess.endpoint import DeliveryReceiver
from mqlab.client.inprocess.transport import InProcessTransport, read_frames
from mqlab.wire.native.bodies import Buffer, Payload, validate
from mqlab.wire.native.frames import Frame, Kind, ProtocolError


class InProcessConnection(NativeServerConnection):
    """A connection of a client in the broker's process. The client gets read-only views of the broker's memory."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._receiver.close()  # no bytes arrive
        self._frame_limit = broker.settings.frame_limit
        self._unsent_frames: list[Frame] = []
        # Of a client in the broker's event loop: its consumers by link, and its callback for `accepts_calls`.
        self._receivers: Mapping[int, DeliveryReceiver] = {}
        self._on_change: Callable[[], None] | None = None
        self.accepts_calls = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, InProcessTransport)
        self._frame_transport = transport
        super().connection_made(transport)

    def _guard_reading(self) -> None:
        """An in-process connection reads from no socket."""

    def _limit_closing(self, transport: asyncio.Transport) -> None:
        """A closed in-process connection waits for no client."""

    def _has_time(self) -> bool:
        """The client that wrote the frames waits for them to be handled, so it needs no read budget."""
        return True

    # Called by a client in the same event loop, see DirectEndpoint

    def attach_client(self, receivers: Mapping[int, DeliveryReceiver], on_change: Callable[[], None]) -> None:
        self._receivers, self._on_change = receivers, on_change

    def _update_untraced(self) -> None:
        super()._update_untraced()
        self.accepts_calls = self._on_change is not None and self._untraced
        if self._on_change is not None:
            self._on_change()

    def send(self, link: int, first: int, payload: Payload, flags: int) -> None:
        self._broker.update_clock()
        try:
            self._take(link, first, payload, flags, validate(payload))
        except REFUSALS as error:
            self._write(refusal(Frame(Kind.SEND, flags, 0, link, first, payload.rows, b""), error))
        except PROTOCOL_ERRORS as error:
            self.fail("protocol", str(error))
        self._broker.run_effects()

    def acknowledge(self, link: int, up_to: int, credit: int, immediate: bool) -> None:
        self._broker.update_clock()
        try:
            self._core.acknowledge(self._consumer(link), up_to, credit)
        except REFUSALS as error:
            self._write(refusal(Frame(Kind.ACKNOWLEDGE, 0, 0, link, up_to, credit, b""), error))
        except PROTOCOL_ERRORS as error:
            self.fail("protocol", str(error))
        if immediate and (self._core.effects or self._broker.unsent or self._core.wake_times):
            self._broker.run_effects()

    def receive(self, link: int, correlation_id: str, done: int, immediate: bool) -> None:
        self._broker.update_clock()
        try:
            consumer = self._consumer(link)
            if done:
                self._core.acknowledge(consumer, done, 0)
            self._core.receive(consumer, Key("correlation_id", correlation_id))
        except REFUSALS as error:
            self._write(refusal(Frame(Kind.RECEIVE, 0, 0, link, 0, 0, b""), error))
        except PROTOCOL_ERRORS as error:
            self.fail("protocol", str(error))
        if immediate and (self._core.effects or self._broker.unsent or self._core.wake_times):
            self._broker.run_effects()

    def run_effects(self) -> None:
        self._broker.run_effects()

    # Effects

    def deliver(self, effect: effects.Deliver) -> None:
        consumer, first, span = effect
        link, payload = consumer.link, span.encoded()
        receiver = self._receivers.get(link)
        if receiver is None or self._unsent_frames or not self.accepts_calls or type(payload.data) is not bytes:
            super().deliver(effect)
        else:
            receiver.on_delivery(first, payload, span.delivered, span.persistent, span.origin or self._names[link])

    def flush(self) -> None:
        frames, self._unsent_frames = self._unsent_frames, []
        if self.call_recorder is not None:
            self.call_recorder.frames_sent(frames)
        self._frame_transport.send(frames)

    def _kept(self, view: Buffer) -> Buffer:
        if len(view) > self._frame_limit:
            raise ProtocolError(f"a frame of {len(view)} bytes; the limit is {self._frame_limit}")
        return view

    def _put(self, kind: int, flags: int, session: int, link: int, first: int, amount: int, payload: Buffer) -> None:
        if not self._unsent_frames:
            self._broker.unsent.append(self)
        if type(payload) is memoryview:
            payload = payload.toreadonly()
        self._unsent_frames.append(Frame(kind, flags, session, link, first, amount, payload))

    def _write(self, data: Buffer) -> None:
        for frame in read_frames((data,)):
            self._put(*frame)
