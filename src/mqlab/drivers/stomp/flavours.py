"""Flavours of STOMP: how brokers name destinations, and which headers each understands."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from mqlab.drivers.api import DriverError


@dataclass(frozen=True)
class StompFlavour:
    name: str
    # The start of the `server` header of its CONNECTED frame.
    server: str
    # Patterns for the names of queues and topics, and the headers that tell them apart.
    queue: str = "/queue/{}"
    topic: str = "/topic/{}"
    send_type: str = ""
    subscribe_type: str = ""
    # last: a receipt confirms all messages before it, so one for each batch is enough. each: every message needs one.
    receipts: Literal["last", "each"] = "each"
    # Whether an ACK can be part of a transaction. If not, one cumulative ACK with a receipt has the same effect.
    transacted_acks: bool = True
    selectors: bool = True
    # Headers of messages that it does not understand: features of `mqlab.study.FEATURES`, each with the reason.
    lacks: Mapping[str, str] = field(default_factory=dict)
    # The header after whose time a message expires: in ms since 1970, or from now on.
    expires: Literal["expires", "expiration"] = "expires"
    # Prefix of a selector that compares numbers: all STOMP headers are text.
    numbers: str = ""
    # The header that names a durable subscription; "": the id names it.
    durable: str = "durable-subscription-name"
    prefetch: str = "prefetch-count"
    # The prefetch header counts messages up to this maximum, or bytes: so many for each message.
    prefetch_most: int = 1_000_000
    prefetch_bytes: int = 1
    # Without selectors: the reply-to value for which the broker makes a temporary queue for the requester.
    own_replies: str = ""

    def destination(self, name: str) -> str:
        """Translate `queue:NAME` or `topic:NAME` to the broker's name."""
        kind, _, rest = name.partition(":")
        return (self.topic if kind == "topic" else self.queue).format(rest)

    def send_headers(self, name: str, *, persistent: bool) -> dict[str, str]:
        return self.reply_headers(self.destination(name), persistent=persistent) | _typed(self.send_type, name)

    def subscribe_headers(self, name: str, prefetch: int, selector: str = "") -> dict[str, str]:
        """Raise DriverError if the broker does not support selectors."""
        if selector and not self.selectors:
            raise DriverError(f"{self.name} does not support selectors over STOMP")
        # A window of 1 byte admits one message of any size.
        window = max(1, min(prefetch, self.prefetch_most)) * self.prefetch_bytes if prefetch > 1 else 1
        return {
            "id": "0", "destination": self.destination(name), "ack": "client", self.prefetch: str(window),
            **_typed(self.subscribe_type, name), **({"selector": selector} if selector else {}),
        }  # fmt: skip

    def expiry(self, expires_s: float | None) -> bytes:
        """Encode the header of messages that expire after this time."""
        if expires_s is None:
            return b""
        begin_ms = time.time_ns() // 1_000_000 if self.expires == "expires" else 0
        return b"%b:%d\n" % (self.expires.encode(), begin_ms + max(1, round(expires_s * 1000)))

    def selector(self, selector: str) -> str:
        """Return the selector with the prefix that makes it compare numbers."""
        return self.numbers + selector if selector else ""

    def durable_headers(self, name: str) -> dict[str, str]:
        """Return the headers that make a subscription durable, or delete it; none without a name."""
        if not name:
            return {}
        # RabbitMQ names a durable subscription by its id.
        return {"id": name, "durable": "true", "auto-delete": "false"} if not self.durable else {self.durable: name}

    def reply_headers(self, to: str, *, persistent: bool) -> dict[str, str]:
        """Return the headers of a reply to the queue `to`, in the broker's own naming."""
        # RabbitMQ would take `persistent:false` for a property of the queue.
        return {"destination": to, **({"persistent": "true"} if persistent else {}), **_typed(self.send_type, "queue:")}


ARTEMIS: Final = StompFlavour(
    "artemis", "ActiveMQ-Artemis", queue="{}", topic="{}", send_type="destination-type",
    subscribe_type="subscription-type", receipts="last", transacted_acks=False, numbers="convert_string_expressions:",
    prefetch="consumer-window-size", prefetch_bytes=1024,
)  # fmt: skip
ACTIVEMQ: Final = StompFlavour(
    "activemq", "ActiveMQ/", durable="activemq.subscriptionName", prefetch="activemq.prefetchSize", prefetch_most=32_000
)
RABBITMQ: Final = StompFlavour(
    "rabbitmq", "RabbitMQ", selectors=False, lacks={"keys": "RabbitMQ has no message groups"}, expires="expiration",
    durable="", prefetch_most=65_535, own_replies="/temp-queue/replies",
)  # fmt: skip
MQLAB: Final = StompFlavour("mqlab", "mqlab", receipts="last")
FLAVOURS: Final = {flavour.name: flavour for flavour in (ACTIVEMQ, ARTEMIS, MQLAB, RABBITMQ)}


def flavour_of(chosen: str, server: str) -> StompFlavour:
    """Return the chosen flavour, else that of the `server` header, else ActiveMQ's. Raise DriverError."""
    if chosen:
        if chosen not in FLAVOURS:
            raise DriverError(f"flavour: {chosen!r} is none of {', '.join(FLAVOURS)}")
        return FLAVOURS[chosen]
    return next((flavour for flavour in FLAVOURS.values() if server.startswith(flavour.server)), ACTIVEMQ)


def _typed(header: str, name: str) -> dict[str, str]:
    if not header:
        return {}
    return {header: "MULTICAST" if name.startswith("topic:") else "ANYCAST"}
