"""Flow control: producers send on credit, and a full destination, or a full broker, gives none. Nothing is dropped."""

from collections.abc import Iterable

from mqlab.broker.core.effects import Credit, Effect
from mqlab.broker.core.links import Producer
from mqlab.broker.core.messages import Span
from mqlab.broker.core.queue import RELEASE_SHARE, Queue
from mqlab.broker.settings import Settings


class OverdrawnError(Exception):
    """A producer breaks the rules of flow control: what it sends would have no bound."""


class Flow:
    """How much is held for consumers, and which producers must wait because of it."""

    def __init__(self, settings: Settings, effects: list[Effect]) -> None:
        self._window = min(settings.producer_window, settings.queue_limit)
        self._limit = settings.memory_limit
        self._effects = effects
        # Bytes of all messages not yet acknowledged. (A topic's message counts once for each subscription.)
        self.size = 0
        self.held: set[Producer] = set()
        # How often a producer had to be held back, since the start.
        self.holds = 0

    def first_credit(self, producer: Producer) -> None:
        self._effects.append(Credit(producer, self._window))

    def spend(self, producer: Producer, size: int) -> None:
        """Raises OverdrawnError for a producer that had no credit left."""
        if producer.spent >= self._window:
            raise OverdrawnError("the producer sends without credit")
        producer.spent += size

    def renew(self, producer: Producer) -> None:
        """Half a window at a time: a frame for each message would cost more than the message."""
        if producer.closed or producer.spent * 2 < self._window:
            return
        if producer.destination.full or self.size >= self._limit:
            if producer not in self.held:
                self.held.add(producer)
                self.holds += 1
            return
        self._effects.append(Credit(producer, producer.spent))
        producer.spent = 0
        self.held.discard(producer)

    def released(self, queue: Queue, spans: Iterable[Span]) -> None:
        """These messages are gone; whoever waited for their room goes on."""
        was_full = queue.full
        for span in spans:
            queue.release(span)
            self.size -= span.size
        if not self.held:
            return
        if was_full and not queue.full:
            self.reconsider((queue.topic or queue).producers)
        if self.size <= self._limit * RELEASE_SHARE:
            self.reconsider(self.held)

    def reconsider(self, producers: Iterable[Producer]) -> None:
        """Those of them that are held go on, if nothing stands against it any more."""
        for producer in [*producers]:
            if producer in self.held:
                self.renew(producer)
