"""Flow control: producers send on credit, and a full destination, or a full broker, gives none. Nothing is dropped.

Two brokers may be full of messages for each other. If each held the other's channel back, both would wait for ever. So
a full broker gives the producers of channels credit as long as their queue has less than a window of bytes in memory:
then each channel moves on as its messages are consumed, whatever else fills the memory. What comes through a channel
stays here, so no longer circle of brokers can wait for itself either.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from mqlab.broker import limits
from mqlab.broker.core.context import CoreContext
from mqlab.broker.core.effects import Credit
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import RELEASE_SHARE, Queue
from mqlab.broker.core.model.sessions import Producer
from mqlab.broker.core.routing.remote_queues import TOKENS
from mqlab.broker.core.routing.topics import Topic
from mqlab.broker.settings import Settings
from mqlab.errors import MqlabError

# The part of the memory limit that one producer may send ahead: messages that wait for the disk take more memory than
# is counted for them, when they are small twice as much, and cannot be taken out of it.
_WINDOW_SHARE: Final = 8
# Episodes of holding that are remembered for whoever asks.
_EPISODES: Final = 1000


class OverdrawnError(MqlabError):
    """A producer breaks the rules of flow control: what it sends would have no bound."""


class Episode(NamedTuple):
    """Producers of a destination were held back, from when to when (ms since 1970)."""

    destination: str
    began: int
    ended: int


class Flow:
    """How much is held for consumers, and which producers must wait because of it."""

    def __init__(self, settings: Settings, context: CoreContext) -> None:
        self._settings = settings
        self._context = context
        # Bytes of memory above which nothing more is taken, whatever credit was given: small messages need far more
        # memory than credit, and a message may be longer than its producer's credit.
        limit = settings.memory_limit
        self.most_memory = limit + max(limit // limits.OVERDRAFT_SHARE, limits.OVERDRAFT_LEAST)
        self.most_of_channels = self.most_memory + limits.CHANNEL_MEMORY * limit
        # Bytes that all producers together may send ahead.
        self._granted = 0
        # Who waits for room, and after how many others he began to.
        self.held: dict[Producer, int] = {}
        # Somebody waits because there is too little memory, and not for a destination alone.
        self.short = False
        # Those who wait that are channels of other brokers.
        self._held_channels: set[Producer] = set()
        # The queues that channels sent to while memory was full.
        self._fed_by_channels: set[Queue] = set()
        # How often a producer had to be held back, and for how long in all (ms), since the start.
        self.holds = 0
        self.held_ms = 0
        self.episodes: deque[Episode] = deque(maxlen=_EPISODES)

    def window(self, destination: Queue | Topic) -> int:
        """Bytes a producer to it may send ahead."""
        settings = self._settings
        memory = max(1, settings.memory_limit // _WINDOW_SHARE)
        left = max(limits.CREDIT_LEAST, (settings.memory_limit // limits.CREDIT_SHARE - self._granted) // 2)
        return min(settings.producer_window, settings.policy_of(destination.full_name).queue_limit, memory, left)

    def first_credit(self, producer: Producer) -> None:
        self._granted += producer.window
        self._context.effects.append(Credit(producer, producer.window))

    def close(self, producer: Producer) -> None:
        self._granted -= producer.window
        self.let_go(producer)

    def renew(self, producer: Producer) -> None:
        """Half a window at a time: a frame for each message would cost more than the message."""
        if self.short:
            self.look_at_memory()
        if producer.closed or producer.spent * 2 < producer.window:
            return
        if self._must_wait(producer):
            if producer not in self.held:
                self.held[producer] = self.holds
                if producer.of_channel:
                    self._held_channels.add(producer)
                self.holds += 1
                producer.held_since = self._context.monotonic_us
            return
        self._context.effects.append(Credit(producer, producer.spent))
        producer.spent = 0
        self.let_go(producer)

    def let_go(self, producer: Producer) -> None:
        """It waits no more, because it may send again or because it is closed."""
        if producer in self.held:
            del self.held[producer]
            self._held_channels.discard(producer)
            context = self._context
            held_ms = max(0, context.monotonic_us - producer.held_since) // 1000
            self.held_ms += held_ms
            self.episodes.append(Episode(producer.destination.full_name, context.now_ms - held_ms, context.now_ms))

    def released(self, queue: Queue, spans: Iterable[Span]) -> None:
        """These messages are gone; whoever waited for their room goes on."""
        was_full = queue.full
        for span in spans:
            queue.release(span)
        if not self.held:
            return
        if was_full and not queue.full:
            for destination in queue.feeding:
                self.reconsider(destination.producers)
        if self.short:
            self.look_at_memory()
            self.reconsider_channels(self._held_channels)

    def reconsider_channels(self, producers: Iterable[Producer]) -> None:
        """Those of them that are channels may go on before the broker as a whole has room again."""
        if self._held_channels:
            self.reconsider(self._held_channels.intersection(producers))

    def reconsider(self, producers: Iterable[Producer]) -> None:
        """Those of them that are held go on, if nothing stands against it any more: who has waited longest first."""
        for producer in sorted(self.held.keys() & producers, key=self.held.__getitem__):
            self.renew(producer)

    def look_at_memory(self) -> None:
        """Also what goes to disk, or is closed, makes room for everybody, though nothing was consumed."""
        if self.short and self._context.memory <= self._settings.memory_limit * RELEASE_SHARE:
            self.short = False
            self.reconsider(self.held)

    def _must_wait(self, producer: Producer) -> bool:
        destination = producer.destination
        if self._context.memory >= self._settings.memory_limit and not self._goes_on(producer):
            self.short = True
            return True
        if isinstance(destination, Queue):
            # A queue loses nothing: where topics drop their oldest messages, it holds.
            return destination.full and destination.policy.when_full != "refuse"
        return any(queue.full and queue.policy.when_full == "hold" for queue in destination.subscriptions)

    def _goes_on(self, producer: Producer) -> bool:
        """Whether it gets credit from a broker whose memory is full."""
        queue = producer.destination
        if not producer.of_channel or not isinstance(queue, Queue):
            return False
        fed = self._fed_by_channels = {one for one in self._fed_by_channels if one.in_memory} | {queue}
        if sum(one.in_memory for one in fed) >= limits.CHANNEL_MEMORY * self._settings.memory_limit:
            return False
        # There is one token, and without it nothing moves.
        return queue.in_memory < producer.window or queue.name.startswith(TOKENS)
