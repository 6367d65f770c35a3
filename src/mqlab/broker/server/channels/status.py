"""The state and the counters of a channel."""

import time
from enum import StrEnum
from typing import Any

from mqlab.broker.channel_settings import ChannelSettings
from mqlab.broker.core.monitoring import EVERY, Mean
from mqlab.broker.settings import Level


class ChannelState(StrEnum):
    RUNNING = "running"
    BLOCKED = "blocked"  # the other broker answers, but does not accept the batch yet
    RETRYING = "retrying"
    STOPPED = "stopped"


class ChannelStatus:
    """Counters are always on; batch sizes and round trips are sampled as the monitoring level says."""

    def __init__(self, channel: ChannelSettings, monitoring: Level) -> None:
        self._channel = channel
        self._every = EVERY[monitoring]
        self.state, self.reason, self._since = ChannelState.STOPPED, "", _now()
        self.messages = self.bytes = self.batches = 0
        # Messages that the other broker refused, now dead letters; non-persistent ones lost when it crashed.
        self.refused = self.lost = 0
        self.in_doubt = 0
        self._round_trip, self._batch = Mean(), Mean()

    def set_state(self, state: ChannelState, reason: str = "") -> None:
        if state != self.state:
            self._since = _now()
        self.state, self.reason = state, reason

    def batch_moved(self, messages: int, size: int, seconds: float) -> None:
        self.messages += messages
        self.bytes += size
        self.batches += 1
        if self._every and self.batches % self._every == 0:
            self._round_trip.add(seconds * 1e6)
            self._batch.add(messages)

    def shown(self) -> dict[str, Any]:
        """`since` is ms since 1970; `monitoring` is None if it is off."""
        return {
            "to": self._channel.to, "address": self._channel.address, "state": self.state.value,
            "reason": self.reason, "since": self._since, "messages": self.messages, "bytes": self.bytes,
            "batches": self.batches, "batch_mean": self.messages / self.batches if self.batches else None,
            "in_doubt": self.in_doubt, "refused": self.refused, "lost": self.lost,
            "monitoring": self._monitoring() if self._every else None,
        }  # fmt: skip

    def _monitoring(self) -> dict[str, Any]:
        trip, batch = self._round_trip, self._batch
        return {
            "looks": trip.looks, "batch_short": batch.short, "batch_long": batch.long,
            "round_trip_short_us": trip.short, "round_trip_long_us": trip.long,
        }  # fmt: skip


def _now() -> int:
    return time.time_ns() // 1_000_000
