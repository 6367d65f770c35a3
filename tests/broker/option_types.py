"""The keyword arguments that tests pass on to consumers and channels."""

from pathlib import Path
from typing import TypedDict


class SubscriptionValues(TypedDict, total=False):
    """The options of a consumer of queues and topics."""

    selector: str
    durable: str
    shared: str
    no_local: bool
    exclusive: bool


class ConsumerValues(SubscriptionValues, total=False):
    """The options of a consumer or a browser, as the core takes them."""

    browse: bool


class ChannelValues(TypedDict, total=False):
    """The settings of a channel to a broker whose name and address are known."""

    user: str
    password_file: Path | None
    ca: Path | None
    batch: int
    retry: int
