"""Encodes frames of the native connection as STOMP frames."""

from collections.abc import Callable, Sequence
from typing import Final

from mqlab import __version__
from mqlab.broker.core.errors import CommandError
from mqlab.broker.server.adapter.producers import PLAIN
from mqlab.broker.server.stomp.components import StompComponents
from mqlab.broker.server.stomp.messages.unpacking import header_line
from mqlab.broker.server.stomp.state_table import StompStage
from mqlab.wire.native.frames import Frame, Kind
from mqlab.wire.stomp.frames import VERSIONS, StompFrame, encode

_SERVER: Final = f"mqlab/{__version__}"


class StompEncoder:
    def __init__(self, components: StompComponents) -> None:
        self._components = components
        self._handlers: dict[int, Callable[[Frame], None]] = {
            Kind.HELLO: self._hello,
            Kind.ERROR: self._error,
            Kind.DELIVER: self._deliver,
            Kind.ORIGIN: self._origin,
            Kind.CONFIRM: lambda frame: components.producers.confirmed(frame.link, frame.first),
            Kind.CREDIT: lambda frame: components.producers.credit(frame.link, frame.amount),
            Kind.OPENED: self._opened,
            Kind.CLOSED: lambda frame: components.producers.closed(frame.link),
            Kind.COMMITTED: lambda frame: components.transactions.ended(frame.session),
            Kind.ROLLED_BACK: lambda frame: components.transactions.ended(frame.session),
            Kind.SEEN: self._seen,
            Kind.ANSWER: self._answered,
        }

    def encode(self, frame: Frame) -> None:
        """Raises CommandError if the broker has refused an admin request."""
        handler = self._handlers.get(frame.kind)
        if handler is not None:
            handler(frame)

    def _hello(self, _: Frame) -> None:
        components = self._components
        connect_headers = components.connect_headers
        assert connect_headers is not None
        components.logged_in, components.stage = True, StompStage.OPEN
        heart_beat = f"{connect_headers.send_ms},{connect_headers.expect_ms}"
        headers = {
            "version": connect_headers.version,
            "server": _SERVER,
            "session": components.session,
            "heart-beat": heart_beat,
        }
        components.socket.write(encode(StompFrame("CONNECTED", headers), connect_headers.version))
        components.socket.login_done(connect_headers.send_ms, connect_headers.expect_ms)
        components.commands.add_json(Kind.OPEN_SESSION, {"transacted": False}, session=PLAIN)

    def _deliver(self, frame: Frame) -> None:
        self._components.socket.write(self._components.subscriptions.deliver(frame))

    def _origin(self, frame: Frame) -> None:
        subscription = self._components.subscriptions.linked(frame.link)
        if subscription is not None:
            subscription.origin = bytes(frame.payload).decode()

    def _opened(self, frame: Frame) -> None:
        subscription = self._components.subscriptions.linked(frame.link)
        if subscription is not None:
            self._components.receipts.done(subscription.opening)

    def _answered(self, frame: Frame) -> None:
        receipts = self._components.commands.waiting_for(frame)
        try:
            self._components.commands.answered(frame)
        except CommandError:
            self._components.failed_receipt = next(iter(receipts), "")
            raise

    def _seen(self, frame: Frame) -> None:
        subscription = self._components.subscriptions.linked(frame.link)
        if subscription is not None:
            self._components.socket.write(subscription.seen())

    def _error(self, frame: Frame) -> None:
        """After a refusal the native connection goes on; a STOMP client could not know what was refused, so it ends."""
        components, message = self._components, str(frame.json().get("message", ""))
        if components.failed:
            return
        headers = {"message": message, "content-type": "text/plain"}
        # The error may be about an earlier frame than the one that is handled now.
        receipt = next(iter(self._receipts_of(frame)), "") if frame.session or frame.link else components.failed_receipt
        if receipt:
            headers["receipt-id"] = receipt
        if not components.logged_in:
            headers["version"] = ",".join(VERSIONS)
        lines = b"".join(header_line(name, value, components.version) for name, value in headers.items())
        body = message.encode(errors="replace")
        components.socket.write(b"ERROR\n%bcontent-length:%d\n\n%b\0" % (lines, len(body), body))
        components.failed = True
        components.refused = bool(frame.session or frame.link)

    def _receipts_of(self, frame: Frame) -> Sequence[str]:
        """The receipts that the client wants for the refused frame."""
        components = self._components
        if not frame.link:
            return components.transactions.receipts_of(frame.session)
        subscription = components.subscriptions.linked(frame.link)
        if subscription is not None:
            return subscription.opening.ids
        pending = components.producers.pending_of(frame.link, frame.first + frame.amount - 1)
        return () if pending is None else pending.ids
