"""What the broker says, as frames for the client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mqlab import __version__
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.server.stomp.components import StompComponents
from mqlab.broker.server.stomp.messages.unpacking import header_line
from mqlab.broker.server.stomp.producers import PLAIN
from mqlab.wire.native.frames import Frame, Kind
from mqlab.wire.stomp import VERSIONS, StompFrame, encode

_SERVER: Final = f"mqlab/{__version__}"


class StompEncoder:
    def __init__(self, components: StompComponents) -> None:
        self._components = components
        self._kinds: dict[int, Callable[[Frame], None]] = {
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

    def heard(self, frame: Frame) -> None:
        """Raises RefusedError if it is the answer to a question, and a refusal."""
        kind = self._kinds.get(frame.kind)
        if kind is not None:
            kind(frame)

    def _hello(self, _: Frame) -> None:
        components = self._components
        greeting = components.greeting
        assert greeting is not None
        components.logged_in = True
        least = f"{greeting.beat},{greeting.expect}"
        headers = {"version": greeting.version, "server": _SERVER, "session": components.session, "heart-beat": least}
        components.outside.write(encode(StompFrame("CONNECTED", headers), greeting.version))
        components.outside.welcome(greeting.version, greeting.beat, greeting.expect)
        components.commands.say(Kind.OPEN_SESSION, {"transacted": False}, session=PLAIN)

    def _deliver(self, frame: Frame) -> None:
        self._components.outside.write(self._components.subscriptions.deliver(frame))

    def _origin(self, frame: Frame) -> None:
        subscription = self._components.subscriptions.linked(frame.link)
        if subscription is not None:
            subscription.comes_from(bytes(frame.payload).decode())

    def _opened(self, frame: Frame) -> None:
        subscription = self._components.subscriptions.linked(frame.link)
        if subscription is not None:
            self._components.receipts.done(subscription.opening)

    def _answered(self, frame: Frame) -> None:
        receipts = self._components.commands.receipts_of(frame)
        try:
            self._components.commands.answered(frame)
        except RefusedError:
            self._components.failed_receipt = next(iter(receipts), "")
            raise

    def _seen(self, frame: Frame) -> None:
        subscription = self._components.subscriptions.linked(frame.link)
        if subscription is not None:
            self._components.outside.write(subscription.seen())

    def _error(self, frame: Frame) -> None:
        """The broker may go on after a refusal; a client that speaks STOMP cannot know what of it was not done."""
        components, message = self._components, str(frame.json().get("message", ""))
        if components.failed:
            return
        headers = {"message": message, "content-type": "text/plain"}
        # While a frame is refused here, the broker may refuse one of those before it.
        receipt = next(iter(self._wanted(frame)), "") if frame.session or frame.link else components.failed_receipt
        if receipt:
            headers["receipt-id"] = receipt
        if not components.logged_in:
            headers["version"] = ",".join(VERSIONS)
        lines = b"".join(header_line(name, value, components.version) for name, value in headers.items())
        body = message.encode(errors="replace")
        components.outside.write(b"ERROR\n%bcontent-length:%d\n\n%b\0" % (lines, len(body), body))
        components.failed = True
        components.refused = bool(frame.session or frame.link)

    def _wanted(self, frame: Frame) -> Sequence[str]:
        """The receipts for what was refused."""
        components = self._components
        if not frame.link:
            return components.transactions.receipts_of(frame.session)
        subscription = components.subscriptions.linked(frame.link)
        if subscription is not None:
            return subscription.opening.ids
        return components.producers.receipts_of(frame.link, frame.first + frame.amount - 1)
