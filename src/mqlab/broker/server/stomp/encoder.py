"""What the broker says, as frames for the client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mqlab import __version__
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.server.stomp.components import Parts
from mqlab.broker.server.stomp.messages.unpacking import line
from mqlab.broker.server.stomp.producers import PLAIN
from mqlab.wire.native.frames import Frame, Kind
from mqlab.wire.stomp import VERSIONS, encode
from mqlab.wire.stomp import Frame as StompFrame

_SERVER: Final = f"mqlab/{__version__}"


class Hearing:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._kinds: dict[int, Callable[[Frame], None]] = {
            Kind.HELLO: self._hello,
            Kind.ERROR: self._error,
            Kind.DELIVER: self._deliver,
            Kind.ORIGIN: self._origin,
            Kind.CONFIRM: lambda frame: parts.producers.confirmed(frame.link, frame.first),
            Kind.CREDIT: lambda frame: parts.producers.credit(frame.link, frame.amount),
            Kind.OPENED: self._opened,
            Kind.CLOSED: lambda frame: parts.producers.closed(frame.link),
            Kind.COMMITTED: lambda frame: parts.transactions.ended(frame.session),
            Kind.ROLLED_BACK: lambda frame: parts.transactions.ended(frame.session),
            Kind.SEEN: self._seen,
            Kind.ANSWER: self._answered,
        }

    def heard(self, frame: Frame) -> None:
        """Raises RefusedError if it is the answer to a question, and a refusal."""
        kind = self._kinds.get(frame.kind)
        if kind is not None:
            kind(frame)

    def _hello(self, _: Frame) -> None:
        parts = self._parts
        greeting = parts.greeting
        assert greeting is not None
        parts.let_in = True
        least = f"{greeting.beat},{greeting.expect}"
        headers = {"version": greeting.version, "server": _SERVER, "session": parts.session, "heart-beat": least}
        parts.outside.write(encode(StompFrame("CONNECTED", headers), greeting.version))
        parts.outside.welcome(greeting.version, greeting.beat, greeting.expect)
        parts.commands.say(Kind.OPEN_SESSION, {"transacted": False}, session=PLAIN)

    def _deliver(self, frame: Frame) -> None:
        self._parts.outside.write(self._parts.subscriptions.deliver(frame))

    def _origin(self, frame: Frame) -> None:
        subscription = self._parts.subscriptions.linked(frame.link)
        if subscription is not None:
            subscription.comes_from(bytes(frame.payload).decode())

    def _opened(self, frame: Frame) -> None:
        subscription = self._parts.subscriptions.linked(frame.link)
        if subscription is not None:
            self._parts.receipts.done(subscription.opening)

    def _answered(self, frame: Frame) -> None:
        receipts = self._parts.commands.receipts_of(frame)
        try:
            self._parts.commands.answered(frame)
        except RefusedError:
            self._parts.culprit = next(iter(receipts), "")
            raise

    def _seen(self, frame: Frame) -> None:
        subscription = self._parts.subscriptions.linked(frame.link)
        if subscription is not None:
            self._parts.outside.write(subscription.seen())

    def _error(self, frame: Frame) -> None:
        """The broker may go on after a refusal; a client that speaks STOMP cannot know what of it was not done."""
        parts, message = self._parts, str(frame.json().get("message", ""))
        if parts.failed:
            return
        headers = {"message": message, "content-type": "text/plain"}
        # While a frame is refused here, the broker may refuse one of those before it.
        receipt = next(iter(self._wanted(frame)), "") if frame.session or frame.link else parts.culprit
        if receipt:
            headers["receipt-id"] = receipt
        if not parts.let_in:
            headers["version"] = ",".join(VERSIONS)
        lines = b"".join(line(name, value, parts.version) for name, value in headers.items())
        body = message.encode(errors="replace")
        parts.outside.write(b"ERROR\n%bcontent-length:%d\n\n%b\0" % (lines, len(body), body))
        parts.failed = True
        parts.refused = bool(frame.session or frame.link)

    def _wanted(self, frame: Frame) -> Sequence[str]:
        """The receipts for what was refused."""
        parts = self._parts
        if not frame.link:
            return parts.transactions.receipts_of(frame.session)
        subscription = parts.subscriptions.linked(frame.link)
        if subscription is not None:
            return subscription.opening.ids
        return parts.producers.receipts_of(frame.link, frame.first + frame.amount - 1)
