"""The connection of a STOMP client."""

from collections.abc import Iterable, Iterator
from functools import partial
from time import time_ns
from typing import Final

from mqlab.broker import limits
from mqlab.broker.server.adapter.connection import Action, ProtocolConnection
from mqlab.broker.server.adapter.heartbeats import Heartbeats
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.inprocess.connection import InProcessConnection
from mqlab.broker.server.stomp.components import StompComponents
from mqlab.broker.server.stomp.decoder import VARYING, StompDecoder
from mqlab.broker.server.stomp.encoder import StompEncoder
from mqlab.wire.native.frames import Frame
from mqlab.wire.stomp.decoder import Limits, StompFrameDecoder
from mqlab.wire.stomp.frames import StompError, StompFrame
from mqlab.wire.stomp.runs import FrameRun

_BEFORE_CONNECT: Final = Limits(
    limits.STOMP_HEADERS, limits.FRAME_BEFORE_HELLO, limits.FRAME_BEFORE_HELLO, limits.FRAME_BEFORE_HELLO
)
# Agreed intervals without data after which a client counts as gone: data may be late.
_TOLERANCE: Final = 2.0


class StompServerConnection(ProtocolConnection[StompFrame | FrameRun]):
    violations = (StompError,)

    def __init__(self, broker: Broker) -> None:
        native = InProcessConnection(broker)
        self._frame_limit = broker.settings.frame_limit
        # No other connection has this name, also after a restart of the broker.
        session = f"{time_ns() // 1_000_000:x}-{native.number}"
        self._components = StompComponents(self, session, broker.core.destinations.exists, broker.clock_ms)
        self._decoder, self._encoder = StompDecoder(self._components), StompEncoder(self._components)
        self._splitter = StompFrameDecoder(_BEFORE_CONNECT, varying=VARYING)
        super().__init__(broker, native, self._components)

    # The protocol

    def _split(self, data: bytes) -> Iterator[StompFrame | FrameRun]:
        return self._splitter.feed_runs(data)

    def _add(self, decoded: StompFrame | FrameRun) -> None:
        if not self._decoder.adds_to_batch(decoded):
            self._actions += self._decoder.actions(decoded)

    def _finish_batch(self) -> Iterable[Action]:
        return self._decoder.finish_batch()

    def _encode(self, frame: Frame) -> None:
        self._encoder.encode(frame)

    def _violation_text(self, error: Exception) -> str:
        return self._decoder.error_text(error)

    @property
    def _waits(self) -> bool:
        return self._decoder.waits

    @property
    def _is_finished(self) -> bool:
        return self._decoder.is_finished

    @property
    def _unfinished_bytes(self) -> int:
        return self._splitter.unfinished

    def _reset(self) -> None:
        self._splitter = StompFrameDecoder(_BEFORE_CONNECT)

    def _written(self) -> None:
        self._components.subscriptions.acknowledge_auto()

    def _commands_sent(self) -> None:
        self._decoder.commands_sent()

    # For decoder and encoder

    def login_done(self, send_ms: int, expect_ms: int) -> None:
        """The login is done: the limits of frames are those of the settings."""
        self._splitter.limits = Limits(
            limits.STOMP_HEADERS, limits.STOMP_HEADER, limits.STOMP_HEAD, self._frame_limit - limits.STOMP_HEAD_ROOM
        )
        self._heartbeats = Heartbeats(
            send_ms / 1000, expect_ms / 1000 * _TOLERANCE, partial(self._write_now, b"\n"),
            partial(self.refuse, "no heart-beat arrived in time"),
        )  # fmt: skip

    def set_version(self, version: str) -> None:
        self._splitter.version = version

    def set_varying_headers(self, headers: frozenset[str]) -> None:
        self._splitter.varying = headers
