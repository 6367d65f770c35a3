"""Messages of a simulation: each has a number, which its body begins with, and the headers that matter to a queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.core.payloads import batch, single
from mqlab.wire.native.bodies import Payload, decode, encode
from mqlab.wire.native.columns import Value

_DIGITS = 8
DEFAULT_PRIORITY = 4


@dataclass(frozen=True, slots=True)
class Message:
    number: int
    persistent: bool
    padding: int = 0
    priority: int = DEFAULT_PRIORITY
    # In ms since 1970; 0: never, at once.
    expires: int = 0
    due: int = 0
    # When it is due by the monotonic clock (ms).
    due_steady: int = 0
    group: str = ""
    colour: str = ""
    key: str = ""
    duplicate_id: str = ""

    @property
    def body(self) -> bytes:
        return b"%0*d" % (_DIGITS, self.number) + b"." * self.padding

    @property
    def headers(self) -> dict[str, Value]:
        said: dict[str, Value] = {
            "expiration": self.expires, "deliver_at": self.due, "group": self.group, "colour": self.colour,
            "correlation_id": self.key, "duplicate_id": self.duplicate_id,
        }  # fmt: skip
        if self.priority != DEFAULT_PRIORITY:
            said["priority"] = self.priority
        return {name: value for name, value in said.items() if value or name == "priority"}


def payload_of(messages: Sequence[Message]) -> Payload:
    headers = [message.headers for message in messages]
    if not any(headers):
        return encode([message.body for message in messages])
    if len(messages) == 1:
        return single(messages[0].body, **headers[0])
    return batch(*((message.body, said) for message, said in zip(messages, headers, strict=True)))


def numbers_in(payload: Payload) -> list[int]:
    return [int(body[:_DIGITS]) for body in decode(payload).tolist()]
