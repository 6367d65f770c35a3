"""How STOMP brokers differ: in the names of destinations, and in the headers that each understands."""

from dataclasses import dataclass
from typing import Final, Literal

from mqlab.drivers.api import DriverError


@dataclass(frozen=True)
class StompFlavour:
    """One kind of broker."""

    name: str
    # What its CONNECTED frame calls it.
    server: str
    # How a queue and a topic are named, and the headers that say which is meant.
    queue: str = "/queue/{}"
    topic: str = "/topic/{}"
    send_type: str = ""
    subscribe_type: str = ""
    # Whether a receipt says that everything sent before it is as safe as what it was asked for: then one is enough.
    receipts: Literal["last", "each"] = "each"
    # Whether it takes an ACK as a part of a transaction; else one that covers all of it, with a receipt, does the same.
    transacted_acks: bool = True
    selectors: bool = True
    # What it wants before a selector that compares numbers, since all headers are text.
    numbers: str = ""
    # The header that names a durable subscription; "": its id does.
    durable: str = "durable-subscription-name"
    prefetch: str = "prefetch-count"
    # What is asked for is a number of messages up to this, or bytes for each.
    prefetch_most: int = 1_000_000
    prefetch_bytes: int = 1
    # Where it knows no selectors: what makes the broker give a requester a queue of its own.
    own_replies: str = ""

    def destination(self, name: str) -> str:
        """Of the lab's name for it: `queue:NAME` or `topic:NAME`."""
        kind, _, rest = name.partition(":")
        return (self.topic if kind == "topic" else self.queue).format(rest)

    def send_headers(self, name: str, *, persistent: bool) -> dict[str, str]:
        return self.reply_headers(self.destination(name), persistent=persistent) | _typed(self.send_type, name)

    def subscribe_headers(self, name: str, prefetch: int, selector: str = "") -> dict[str, str]:
        """Raises DriverError if it knows no selectors."""
        if selector and not self.selectors:
            raise DriverError(f"{self.name} knows no selectors over STOMP")
        # A window of 1 byte is room for one message, whatever its size.
        capacity = max(1, min(prefetch, self.prefetch_most)) * self.prefetch_bytes if prefetch > 1 else 1
        return {
            "id": "0", "destination": self.destination(name), "ack": "client", self.prefetch: str(capacity),
            **_typed(self.subscribe_type, name), **({"selector": selector} if selector else {}),
        }  # fmt: skip

    def selector(self, chosen: str) -> str:
        """As it must be written to compare numbers."""
        return self.numbers + chosen if chosen else ""

    def durable_headers(self, name: str) -> dict[str, str]:
        """What makes a subscription durable, if it has a name, and what ends such a one."""
        if not name:
            return {}
        # Of RabbitMQ's it is the id that names it.
        return {"id": name, "durable": "true", "auto-delete": "false"} if not self.durable else {self.durable: name}

    def reply_headers(self, to: str, *, persistent: bool) -> dict[str, str]:
        """To a queue, by the name that the broker itself gave it."""
        # Not to be persistent is never said: RabbitMQ would take it for a property of the queue.
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
    "rabbitmq", "RabbitMQ", selectors=False, durable="", prefetch_most=65_535, own_replies="/temp-queue/replies"
)
MQLAB: Final = StompFlavour("mqlab", "mqlab", receipts="last")
FLAVOURS: Final = {flavour.name: flavour for flavour in (ACTIVEMQ, ARTEMIS, MQLAB, RABBITMQ)}


def flavour_of(chosen: str, server: str) -> StompFlavour:
    """The one that was chosen, else the one that the server says it is, else the most usual. Raises DriverError."""
    if chosen:
        if chosen not in FLAVOURS:
            raise DriverError(f"flavour: {chosen!r} is none of {', '.join(FLAVOURS)}")
        return FLAVOURS[chosen]
    return next((flavour for flavour in FLAVOURS.values() if server.startswith(flavour.server)), ACTIVEMQ)


def _typed(header: str, name: str) -> dict[str, str]:
    if not header:
        return {}
    return {header: "MULTICAST" if name.startswith("topic:") else "ANYCAST"}
