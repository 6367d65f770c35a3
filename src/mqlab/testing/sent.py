"""Messages that clients have sent to the broker of a test."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Condition
from time import monotonic

from mqlab.client.message import Delivery
from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.columns import Value

# A message in the text of a failed assertion shows so many bytes of its body.
_BODY_BYTES = 60


@dataclass(frozen=True)
class SentMessage:
    """A message as the broker accepted it. Names are those of the broker, whatever the protocol of the client."""

    # `queue:NAME` or `topic:NAME`.
    destination: str
    body: bytes
    properties: dict[str, Value] = field(default_factory=dict)
    persistent: bool = False
    correlation_id: str | None = None
    reply_to: str | None = None
    type: str | None = None
    priority: int = 4
    # When it expires, and when it can be delivered at the earliest, in ms since 1970; 0: never, at once.
    expiration: int = 0
    deliver_at: int = 0
    group: str | None = None
    # The client id of its sender, if it has one.
    client: str = ""

    @property
    def text(self) -> str:
        """The body as UTF-8. Raises UnicodeDecodeError."""
        return self.body.decode()

    def __str__(self) -> str:
        more = "..." if len(self.body) > _BODY_BYTES else ""
        properties = f" {self.properties}" if self.properties else ""
        return f"{self.destination} {self.body[:_BODY_BYTES]!r}{more}{properties}"


def messages_of(payload: Payload, destination: str, client: str, *, persistent: bool) -> list[SentMessage]:
    """The messages of a payload."""
    return [
        SentMessage(
            destination, message.body, message.properties, persistent, message.correlation_id, message.reply_to,
            message.type, message.priority, message.expiration, message.deliver_at, message.group, client,
        )
        for message in Delivery(1, payload, 0, persistent, destination).messages()
    ]  # fmt: skip


class SentMessages:
    """All that was sent, in order. The broker appends in its thread, and tests read in theirs."""

    def __init__(self) -> None:
        self._messages: list[SentMessage] = []
        self._changed = Condition()

    def append(self, messages: Sequence[SentMessage]) -> None:
        with self._changed:
            self._messages += messages
            self._changed.notify_all()

    def clear(self) -> None:
        with self._changed:
            self._messages.clear()

    def all(self) -> list[SentMessage]:
        with self._changed:
            return [*self._messages]

    def wait(self, destination: str, count: int, timeout_s: float) -> list[SentMessage]:
        """All messages to the destination ("": to any), as soon as there are `count`, or when the time is over."""
        return self.wait_until(lambda message: not destination or message.destination == destination, count, timeout_s)

    def wait_until(self, matches: Callable[[SentMessage], bool], count: int, timeout_s: float) -> list[SentMessage]:
        deadline = monotonic() + timeout_s
        with self._changed:
            while True:
                found = [message for message in self._messages if matches(message)]
                left_s = deadline - monotonic()
                if len(found) >= count or left_s <= 0:
                    return found
                self._changed.wait(left_s)
