"""The broker as a test sees it: its address, its clock, and what was sent to it."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from mqlab.client import Connection, connect
from mqlab.testing.sent import SentMessage
from mqlab.wire.native.columns import Value

if TYPE_CHECKING:
    from mqlab.testing.in_process import BrokerControl

_WAIT_SECONDS: Final = 5.0
_SHOWN: Final = 20


class BrokerClock:
    """The broker's clock: expiry, delays, wills and sessions follow it. The clocks of clients do not."""

    def __init__(self, control: "BrokerControl") -> None:
        self._control = control

    @property
    def now(self) -> float:
        """Seconds since 1970."""
        return self._control.now_ms() / 1000

    def advance(self, seconds: float) -> None:
        """Set it forward; a negative number sets it back. When this returns, the broker has done
        all that is due then."""
        self._control.advance(round(seconds * 1000))

    def set(self, timestamp: float) -> None:
        """Set it to a time in seconds since 1970. It goes on from there."""
        self._control.advance(round(timestamp * 1000) - self._control.now_ms())


class FixtureBroker:
    def __init__(self, host: str, control: "BrokerControl") -> None:
        self.host = host
        # The same for all protocols.
        self.port = control.port
        self.clock = BrokerClock(control)
        self._control = control

    @property
    def address(self) -> str:
        """For `mqlab.client.connect`."""
        return f"tcp:{self.host}:{self.port}"

    def url(self, scheme: str) -> str:
        """`amqp`, `mqtt`, `stomp`, `ws`, `tcp`: the URL that clients of that protocol take."""
        return f"{scheme}://{self.host}:{self.port}"

    def connect(self, **options: Any) -> Connection:
        """A connection of mqlab's own client."""
        return connect(self.address, **options)

    def sent(self, destination: str = "") -> list[SentMessage]:
        """The messages that clients have sent to the destination, or to any, in order."""
        return [message for message in self._control.sent() if not destination or message.destination == destination]

    def forget_sent(self) -> None:
        """Forget all messages that were sent so far."""
        self._control.forget_sent()

    def assert_sent(
        self, destination: str, body: bytes | str | None = None, *, count: int | None = None,
        timeout: float = _WAIT_SECONDS, properties: Mapping[str, Value] | None = None, **headers: Value | None,
    ) -> list[SentMessage]:  # fmt: skip
        """Fail unless such a message was sent, or is sent within the time; with `count`, exactly so many.

        `properties`: those that it has among others. `headers`: other fields of SentMessage, such as `correlation_id`.
        Returns the messages that match.
        """
        matches = _condition(destination, body, properties or {}, headers)
        needed = 1 if count is None else count
        total = needed
        while True:
            messages = self._control.wait_for_sent(destination, total, timeout if needed else 0)
            found = [message for message in messages if matches(message)]
            if len(found) >= needed or len(messages) < total:
                break
            # Others came before.
            total = len(messages) + 1
        if len(found) < needed or (count is not None and len(found) != count):
            raise AssertionError(self._report(destination, len(found), count))
        return found

    def assert_nothing_sent(self, destination: str = "") -> None:
        """Fail if a message was sent to the destination, or to any."""
        if found := self.sent(destination):
            raise AssertionError(f"{len(found)} messages were sent:\n{_listed(found)}")

    def _report(self, destination: str, found: int, count: int | None) -> str:
        wanted = "no such message" if count is None else f"{found} such messages instead of {count}"
        everything = self.sent()
        listed = _listed(everything) if everything else "  nothing"
        return f"{wanted} sent to {destination}; all that was sent:\n{listed}"


def _condition(
    destination: str, body: bytes | str | None, properties: Mapping[str, Value], headers: Mapping[str, Value | None]
) -> Callable[[SentMessage], bool]:
    if unknown := headers.keys() - SentMessage.__dataclass_fields__.keys():
        raise TypeError(f"a message has no {', '.join(sorted(unknown))}")
    encoded = body.encode() if isinstance(body, str) else body

    def matches(message: SentMessage) -> bool:
        return (
            message.destination == destination
            and (encoded is None or message.body == encoded)
            and all(message.properties.get(name) == value for name, value in properties.items())
            and all(getattr(message, name) == value for name, value in headers.items())
        )

    return matches


def _listed(messages: list[SentMessage]) -> str:
    lines = [f"  {message}" for message in messages[:_SHOWN]]
    if len(messages) > _SHOWN:
        lines.append(f"  and {len(messages) - _SHOWN} more")
    return "\n".join(lines)
