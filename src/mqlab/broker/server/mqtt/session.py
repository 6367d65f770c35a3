"""A session: what the broker knows of a client beyond its connection."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol

from mqlab.broker.core.routing.subscriptions import full_name

# A session that never expires.
FOREVER: Final = 0xFFFFFFFF


@dataclass
class SubscriptionOptions:
    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    # 0: none.
    identifier: int = 0
    # Whether the broker keeps messages for it while the client is not connected.
    durable: bool = False


@dataclass
class Will:
    destination: str
    body: bytes
    fields: dict[str, Any]
    qos: int
    retain: bool
    delay_s: int


class SessionConnection(Protocol):
    """The connection of a session."""


@dataclass(eq=False)
class MqttSession:
    client: str
    # "" in a broker without users.
    user: str
    expiry_s: int
    subscriptions: dict[str, SubscriptionOptions] = field(default_factory=dict)
    # Packet ids of messages with QoS 2 from the client that it has not released, with their duplicate ids.
    received: dict[int, str] = field(default_factory=dict)
    # Packet ids of messages with QoS 2 for the client that the broker has released: topic filter and message id.
    released: dict[int, tuple[str, int]] = field(default_factory=dict)
    will: Will | None = None
    # None while there is no connection.
    connection: SessionConnection | None = None
    # When it lost its connection, in ms since 1970; 0: it has one.
    ended_ms: int = 0

    @property
    def durable(self) -> bool:
        """Whether it outlives its connection."""
        return self.expiry_s > 0

    @property
    def key(self) -> str:
        return session_key(self.user, self.client)

    def document(self) -> bytes:
        will = None
        if self.will is not None:
            will = {**asdict(self.will), "body": self.will.body.hex()}
        return json.dumps({
            "client": self.client, "user": self.user, "expiry_s": self.expiry_s, "ended_ms": self.ended_ms,
            "subscriptions": {name: asdict(options) for name, options in self.subscriptions.items()}, "will": will,
        }).encode()  # fmt: skip

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "MqttSession":
        """Raises KeyError, TypeError or ValueError if the broker did not write the document."""
        will = document["will"]
        return cls(
            str(document["client"]), str(document["user"]), int(document["expiry_s"]),
            {name: SubscriptionOptions(**options) for name, options in document["subscriptions"].items()},
            will=None if will is None else Will(**{**will, "body": bytes.fromhex(will["body"])}),
            ended_ms=int(document["ended_ms"]),
        )  # fmt: skip


def session_key(user: str, client: str) -> str:
    return full_name(client, "session", user)
