"""The interface of each side of an in-process connection, which the other side calls."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, runtime_checkable

from mqlab.wire.native.frames import Frame
from mqlab.wire.native.payload import Payload


class Endpoint(Protocol):
    """The user of a transport: the client's connection, or the broker's."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def frames_received(self, frames: Iterable[Frame]) -> None: ...

    def connection_lost(self, error: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


@runtime_checkable
class DeliveryReceiver(Protocol):
    """A consumer of the client to which the broker can deliver by a call."""

    def on_delivery(self, first: int, payload: Payload, delivered: int, persistent: bool, origin: str) -> None: ...


@runtime_checkable
class DirectEndpoint(Protocol):
    """The broker's endpoint for a client in its event loop: each call does what the frame of that kind does."""

    # False while a trace must see frames, and after the connection has ended.
    accepts_calls: bool

    def attach_client(self, receivers: Mapping[int, DeliveryReceiver], on_change: Callable[[], None]) -> None:
        """The broker may deliver to these links by calls. It calls `on_change` when `accepts_calls` may change."""

    def send(self, link: int, first: int, payload: Payload, flags: int) -> None:
        """Send messages, and run all effects."""

    def acknowledge(self, link: int, up_to: int, credit: int, immediate: bool) -> None:
        """Acknowledge and grant credit. Run the effects now if `immediate`, else with the next `run_effects`."""

    def receive(self, link: int, correlation_id: str, done: int, immediate: bool) -> None:
        """Ask for a message by its correlation id, and acknowledge up to `done` unless that is 0."""

    def run_effects(self) -> None: ...
