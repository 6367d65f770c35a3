"""Dynamic nodes: temporary queues and topics that live as long as the link that created them, or its connection."""

from collections.abc import Callable
from secrets import token_hex

from mqlab.broker.core.model.destination_names import TEMPORARY, TOPIC
from mqlab.broker.server.amqp.context import AmqpContext
from mqlab.broker.server.amqp.errors import LinkError, refusal_of
from mqlab.broker.server.amqp.termini import is_temporary_topic
from mqlab.json_values import JsonObject


class TemporaryNode:
    """`created` is called with the broker's name. A topic needs no declaration: its name cannot be guessed."""

    def __init__(
        self,
        context: AmqpContext,
        capabilities: object,
        created: Callable[[str], None],
        refused: Callable[[LinkError], None],
    ) -> None:
        self._context = context
        self._created, self._refused = created, refused
        self._name = ""
        self._is_topic = is_temporary_topic(capabilities)
        if self._is_topic:
            self._set_name(f"{TOPIC}:{TEMPORARY}{token_hex(16)}")
        else:
            context.ask({"ask": "temporary"}, self._answered)

    def delete(self) -> None:
        """The link has ended. A queue that others still use is deleted with the connection."""
        if self._name and not self._is_topic:
            self._context.producers.close_unused(self._name)
            self._context.ask({"ask": "delete_temporary", "name": self._name}, lambda _: None)

    def _answered(self, answer: JsonObject) -> None:
        if "error" in answer:
            self._refused(refusal_of(answer))
        else:
            self._set_name(str(answer["name"]))

    def _set_name(self, name: str) -> None:
        self._name = name
        self._created(name)
