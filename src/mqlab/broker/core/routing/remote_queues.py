"""Queues of other brokers: `queue:NAME@BROKER`, and the transmission queue on which messages for a broker wait.

In the name of a queue an `@` stands before the name of a broker and nowhere else. With the name of this broker it means
the queue here, whatever a definition makes of the plain name: so what arrives through a channel has arrived.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mqlab.broker.core.errors import RefusedError
from mqlab.broker.core.model.destination_names import QUEUE, BadNameError, parse
from mqlab.broker.policy import Policy
from mqlab.broker.settings import Settings
from mqlab.wire.address import BROKER_NAME

# Short names of queues: messages for another broker wait on `transmit.B`; on B, `channel.A` says what came from A.
TRANSMISSION: Final = "transmit."
TOKENS: Final = "channel."
# The ids of a transmission queue begin at the time (ms since 1970) shifted by this: more messages than come in a ms.
_IDS_A_MS: Final = 20
# The clock may have been set back: so many ids that a broker may have used without a record of them are skipped.
_IDS_SKIPPED: Final = 1 << 40


class Remotes:
    """Which names are of other brokers, and which brokers can be reached."""

    def __init__(self, settings: Settings) -> None:
        self._own = settings.name
        self._definitions = dict(settings.remotes)
        # Brokers that a channel leads to.
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
        """What rights are about: the name of a queue here, or with its broker."""
        kind, short = parse(name, patterns=True)
        if kind != QUEUE:
            return name
        queue, broker = self.resolve(short)
        return f"{QUEUE}:{queue}@{broker}" if broker else f"{QUEUE}:{queue}"

    def here(self, short: str) -> str:
        """The name of a queue of this broker. Raises RefusedError for one of another."""
        queue, broker = self.resolve(short)
        if broker:
            raise RefusedError(f"{QUEUE}:{queue}@{broker} is a queue of another broker: it can only be sent to")
        return queue


def first_id(short: str, now: int, known: int = 1) -> int:
    """Where the ids of a queue begin, or go on after a restart; `known`: behind the last one with a record.

    Those of a transmission queue are never used twice: not in another life of the broker, which forgets the ids of
    messages it did not keep, and not by a queue of the same name. Another broker's word about one is true for ever.
    """
    if not short.startswith(TRANSMISSION):
        return known
    return max(now << _IDS_A_MS, known + _IDS_SKIPPED if known > 1 else 1)


def of_channels(short: str, policy: Policy) -> Policy:
    """The policy of a queue: channels that are cut off again and again deliver in vain, through no message's fault."""
    if short.startswith(TOKENS):
        return Policy(redelivery_limit=0)
    return replace(policy, redelivery_limit=0) if short.startswith(TRANSMISSION) else policy
