"""All channels of a broker: those of its settings, and those that an administrator has added at run time."""

import asyncio

from mqlab.broker.channel_settings import ChannelSettings
from mqlab.broker.core.errors import CommandError
from mqlab.broker.server.channels.channel import SenderChannel
from mqlab.broker.server.channels.host import ChannelHost
from mqlab.broker.settings import Level
from mqlab.json_values import JsonObject


class ChannelRegistry:
    def __init__(self, broker: ChannelHost) -> None:
        self._broker = broker
        self._channels: dict[str, SenderChannel] = {}

    def start(self) -> None:
        """Start the channels of the settings. They connect in the background, and retry."""
        for settings in self._broker.settings.channels:
            self.add(settings)

    def add(self, settings: ChannelSettings, password: str = "") -> None:
        """Add and start a channel, until the broker ends. Raises CommandError."""
        own = self._broker.settings.name
        if not own:
            raise CommandError("a broker with channels needs a name, by which other brokers know it")
        if settings.to == own:
            raise CommandError(f"{own} is this broker itself")
        if settings.to in self._channels:
            raise CommandError(f"there is a channel to {settings.to} already")
        destinations = self._broker.core.destinations
        destinations.remotes.reached.add(settings.to)
        destinations.transmission_queue(settings.to)
        channel = self._channels[settings.to] = SenderChannel(self._broker, settings, password)
        self._broker.run_effects()
        channel.start()

    def get(self, to: str) -> SenderChannel:
        channel = self._channels.get(to)
        if channel is None:
            raise CommandError(f"there is no channel to {to[:80]!r}")
        return channel

    def set_monitoring(self, level: Level) -> None:
        for channel in self._channels.values():
            channel.status.set_monitoring(level)

    def status(self) -> list[JsonObject]:
        return [channel.status.shown() for channel in self._channels.values()]

    async def close(self) -> None:
        await asyncio.gather(*(channel.stop() for channel in self._channels.values()))
