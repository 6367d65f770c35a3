"""Queues of other brokers: `queue:NAME@BROKER`, and the transmission queue on which messages for a broker wait.

In the name of a queue, `@` is followed by the name of a broker. With the name of this broker it is the local queue,
whatever a definition makes of the plain name: a message that arrives through a channel is not sent on.
"""

from dataclasses import replace
from typing import Final

from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.destination_names import QUEUE, BadNameError, parse
from mqlab.broker.policy import Policy
from mqlab.broker.settings import Settings
from mqlab.wire.address import BROKER_NAME

# Short names of queues: messages for broker B wait on `transmit.B`; on B, `channel.A` has the token of A's channel.
TRANSMISSION: Final = "transmit."
TOKENS: Final = "channel."
# Queues in which the broker keeps MQTT sessions and retained messages.
MQTT_STATE: Final = "mqtt."
_NO_LIMIT: Final = 1 << 62
# The ids of a transmission queue begin at the time (ms since 1970) shifted by this: more messages than come in a ms.
_IDS_A_MS: Final = 20
# The clock may have been set back: a broker skips so many ids that it may have used without a record of them.
_IDS_SKIPPED: Final = 1 << 40


class RemoteQueues:
    """Resolves names of queues to brokers, and knows which brokers can be reached."""

    def __init__(self, settings: Settings) -> None:
        self._own = settings.name
        self._definitions = dict(settings.remotes)
        # Brokers that have a channel.
        self.reached = {channel.to for channel in settings.channels}

    def resolve(self, short: str) -> tuple[str, str]:
        """The queue's name and its broker's; "": this one. Raises BadNameError."""
        if "@" not in short:
            target = self._definitions.get(short)
            return (short, "") if target is None else self.resolve(parse(target)[1])
        queue, _, broker = short.partition("@")
        if not queue or not BROKER_NAME.fullmatch(broker):
            raise BadNameError(f"{short[:80]!r}: a queue of another broker is NAME@BROKER, with one @")
        parse(f"{QUEUE}:{queue}")
        return queue, "" if broker == self._own else broker

    def actual(self, name: str) -> str:
        """The name that rights are granted for: of a local queue, or with its broker."""
        kind, short = parse(name, patterns=True)
        if kind != QUEUE:
            return name
        queue, broker = self.resolve(short)
        return f"{QUEUE}:{queue}@{broker}" if broker else f"{QUEUE}:{queue}"

    def local(self, short: str) -> str:
        """The short name of a local queue. Raises CommandError for another broker's."""
        queue, broker = self.resolve(short)
        if broker:
            raise CommandError(f"{QUEUE}:{queue}@{broker} is a queue of another broker: it can only be sent to")
        return queue


def first_id(short: str, now: int, known: int = 1) -> int:
    """The first id of a new queue, or the next one after a restart; `known` follows the last one with a record.

    Ids of a transmission queue are never used twice, not after a restart, which forgets the ids of non-persistent
    messages, and not by a later queue of the same name: the other broker may still name them as arrived.
    """
    if not short.startswith(TRANSMISSION):
        return known
    return max(now << _IDS_A_MS, known + _IDS_SKIPPED if known > 1 else 1)


def channel_policy(short: str, policy: Policy) -> Policy:
    """The policy of a queue. Queues of channels have no redelivery limit: connections may be cut often.

    The queues in which the broker keeps the state of MQTT have no limit: `limits` bounds what is put there.
    """
    if short.startswith(MQTT_STATE):
        return Policy(redelivery_limit=0, queue_limit=_NO_LIMIT)
    if short.startswith(TOKENS):
        return Policy(redelivery_limit=0)
    return replace(policy, redelivery_limit=0) if short.startswith(TRANSMISSION) else policy
