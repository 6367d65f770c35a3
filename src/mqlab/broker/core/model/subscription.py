"""Subscriptions: what a queue gets of the messages that are sent to topics."""

from dataclasses import dataclass
from typing import NamedTuple

from mqlab.broker import limits
from mqlab.broker.core.dispatch.selection import weight_of
from mqlab.broker.core.selectors import Selector, compile_selector
from mqlab.broker.patterns import is_pattern, matches


class Terms(NamedTuple):
    """The name of a topic, or a pattern of names; a selector; whether the subscription leaves out its owner's messages.

    `client` and `user` own a durable subscription. `user` is "" in a broker without users, and in a journal from
    before the broker had any.
    """

    topic: str
    selector: str = ""
    no_local: bool = False
    shared: bool = False
    client: str = ""
    user: str = ""


@dataclass(eq=False, slots=True)
class Subscription:
    terms: Terms
    durable: bool
    # The connection of a subscription that is not durable.
    owner: object | None = None
    selector: Selector | None = None

    def __post_init__(self) -> None:
        if self.terms.selector:
            self.selector = compile_selector(self.terms.selector)

    @property
    def weight(self) -> int:
        """How many subscriptions without a selector cost as much."""
        return 1 if self.selector is None else limits.SELECTOR_WEIGHT * weight_of(self.selector)

    @property
    def wildcard(self) -> bool:
        return is_pattern(self.terms.topic)

    def is_of(self, name: str) -> bool:
        return matches(self.terms.topic, name)

    def leaves_out(self, owner: object, client: str, user: str) -> bool:
        """Whether `no_local` excludes messages of this sender: the connection, its client id and its user."""
        if not self.terms.no_local:
            return False
        return owner is self.owner or (
            bool(self.terms.client) and (client, user) == (self.terms.client, self.terms.user)
        )
