"""The broker as its channels see it."""

from typing import Protocol

from mqlab.broker.core.broker import Core
from mqlab.broker.settings import Settings


class ChannelHost(Protocol):
    settings: Settings
    core: Core

    def update_clock(self) -> None:
        """Tell the core the time. A channel calls it before it calls commands of the core."""

    def run_effects(self) -> None:
        """Run the effects of those commands."""
