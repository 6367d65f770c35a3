"""Addresses of AMQP clients, and the broker's names of destinations."""

from collections.abc import Iterable
from typing import Final

from mqlab.broker.core.model.destination_names import QUEUE, TOPIC

# The forms in which a client may write the kind of a destination.
_FORMS: Final = tuple((form, kind) for kind in (QUEUE, TOPIC) for form in (f"{kind}://", f"{kind}:", f"/{kind}/"))
TEMPORARY_QUEUE: Final = "temporary-queue"
TEMPORARY_TOPIC: Final = "temporary-topic"
_TOPICS: Final = frozenset((TOPIC, TEMPORARY_TOPIC))


def native_name(address: str, capabilities: Iterable[str] = ()) -> str:
    """The broker's name. A plain name is that of a queue unless the capabilities of the terminus say `topic`."""
    for form, kind in _FORMS:
        if address.startswith(form):
            return f"{kind}:{address.removeprefix(form)}"
    return f"{TOPIC if _TOPICS.intersection(capabilities) else QUEUE}:{address}"


def address_of(name: str) -> str:
    """The address of a destination that works without capabilities: the plain name of a queue, `topic://` of a topic.

    A text that is not a name of this broker stays as it is: the client may understand it.
    """
    kind, colon, short = name.partition(":")
    if not colon or kind not in (QUEUE, TOPIC):
        return name
    return short if kind == QUEUE and native_name(short) == name else f"{kind}://{short}"
