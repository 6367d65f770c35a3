"""Commands to a core in one line each, and its effects as plain values."""

from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import ParamSpec, TypeVar, Unpack

from broker.option_types import ConsumerValues
from mqlab.broker.core.broker import Core
from mqlab.broker.core.dispatch.correlation_index import Field, Key
from mqlab.broker.core.durability.records import Record
from mqlab.broker.core.effects import (
    Answer,
    Append,
    BrowseEnded,
    Committed,
    Confirm,
    Continue,
    Credit,
    Deliver,
    Finished,
    Opened,
    Requeued,
    RolledBack,
)
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.queue_consumer import QueueConsumer
from mqlab.broker.core.model.sessions import CoreConsumer, CoreProducer, CoreSession
from mqlab.broker.core.routing.subscriptions import ConsumerOptions
from mqlab.broker.settings import Settings
from mqlab.wire.native.bodies import Payload, decode, encode

from .payloads import bodies_of
from .reference_recovery import Replayed

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
RecordKind = TypeVar("RecordKind", bound=Record)

# The time at which a core begins here, in ms since 1970.
NOW = 1_000_000


def new_core(settings: Settings) -> Core:
    """Its temporary queues have names that can be foretold."""
    core = Core(settings)
    core.context.new_token = map("{:032x}".format, count(1)).__next__
    return core


def held_messages(consumer: QueueConsumer) -> int:
    """Those that it has not acknowledged."""
    return sum(span.rows for _, span in consumer.unacknowledged)


class Driven:
    """A core whose effects are taken after every command. Its journal is durable when `sync()` is called.

    Settings of the broker and of its policy are given side by side.
    """

    def __init__(self, *, stored: bool = True, **settings: object) -> None:
        self._settings = Settings.flat(data=Path("unused") if stored else None, **settings)
        self.core = new_core(self._settings)
        self.core.tick(NOW)
        # What each consumer got: the body, and whether it may have been delivered before (and how often).
        self.delivered: dict[CoreConsumer, list[tuple[bytes, bool]]] = {}
        self.times: dict[CoreConsumer, list[int]] = {}
        self.spans: dict[CoreConsumer, list[Span]] = {}
        self.frames: dict[CoreConsumer, int] = {}
        self.confirmed: list[tuple[CoreProducer, int]] = []
        self.credit: Counter[CoreProducer] = Counter()
        self.answers: list[object] = []
        self.opened: list[CoreConsumer] = []
        self.records: list[Record] = []
        self.durable = 0
        # Work that goes on in a later turn.
        self.later: list[Callable[[], None]] = []
        self._forgotten: dict[CoreConsumer, int] = {}
        self._links = 0

    # Links

    def session(
        self, *, transacted: bool = False, owner: object | None = None, client: str = "", user: str = ""
    ) -> CoreSession:
        self._links += 1
        return self.core.open_session(owner or self, self._links, transacted=transacted, client=client, user=user)

    def producer(self, name: str, session: CoreSession | None = None) -> CoreProducer:
        self._links += 1
        producer = self.core.open_producer(session or self.session(), self._links, name)
        self.take()
        return producer

    def consumer(
        self, name: str, credit: int = 1000, session: CoreSession | None = None, **options: Unpack[ConsumerValues]
    ) -> CoreConsumer:
        self._links += 1
        consumer = self.core.open_consumer(
            session or self.session(), self._links, name, credit, ConsumerOptions(**options)
        )
        self.delivered.setdefault(consumer, [])
        self.take()
        if consumer not in self.opened:
            # A durable subscription.
            self.sync()
        return consumer

    # Messages

    def send(
        self, producer: CoreProducer, *bodies: bytes, persistent: bool = False, confirm: bool = False, seq: int = 0
    ) -> None:
        self.put(producer, encode(bodies), persistent=persistent, confirm=confirm, seq=seq)

    def put(
        self, producer: CoreProducer, payload: Payload, *, persistent: bool = False, confirm: bool = False, seq: int = 0
    ) -> None:
        """A payload as it is."""
        try:
            self.core.send(producer, payload, seq or payload.rows, persistent=persistent, confirm=confirm)
        finally:
            self.take()

    def acknowledge(self, consumer: CoreConsumer, up_to: int, credit: int = 0) -> None:
        self.core.acknowledge(consumer, up_to, credit)
        self.take()

    def acknowledge_rows(self, consumer: CoreConsumer, first: int, rows: int = 1) -> None:
        self.core.acknowledge_rows(consumer, first, rows)
        self.take()

    def receive(self, consumer: CoreConsumer, value: str | bytes, field: Field = "correlation_id") -> None:
        self.core.receive(consumer, Key(field, value))
        self.take()

    def close(self, consumer: CoreConsumer, seen: int | None = None) -> None:
        """Without `seen`: its application saw all it got."""
        self.core.close_consumer(consumer, consumer.next_delivery if seen is None else seen)
        self.take()

    def lose(self, session: CoreSession) -> None:
        """Its connection is gone."""
        self.core.close_session(session)
        self.take()

    def commit(self, session: CoreSession) -> None:
        self.core.commit(session)
        self.take()

    def rollback(self, session: CoreSession) -> None:
        self.core.rollback(session)
        self.take()

    # Time and disk

    def sync(self) -> None:
        self.durable = self.core.records.lsn
        self.do(self.core.on_durable, self.durable)

    def go_on(self) -> int:
        """With long work, until there is none. Returns the turns that it took."""
        turns = 0
        while self.later:
            turns += 1
            self.do(self.later.pop(0))
        return turns

    def tick(self, later: int) -> None:
        """So many milliseconds pass."""
        self.core.context.monotonic_us += later * 1000
        self.do(self.core.tick, self.core.context.now_ms + later)

    def do(self, command: Callable[Arguments, Result], *arguments: Arguments.args, **more: Arguments.kwargs) -> Result:
        answer = command(*arguments, **more)
        self.take()
        return answer

    def restarted(self) -> "Driven":
        """Another core, with what is durable of this one's journal."""
        after = Driven()
        after.core = new_core(self._settings)
        after.core.tick(self.core.context.now_ms)
        Replayed(self.records[: self.durable]).restore(after.core)
        after.take()
        return after

    # What came of it

    def take(self) -> None:
        for effect in self.core.effects:
            if isinstance(effect, Deliver):
                self._deliver(effect)
            elif isinstance(effect, Confirm):
                self.confirmed.append((effect.producer, effect.seq))
            elif isinstance(effect, Credit):
                self.credit[effect.producer] += effect.size
            elif isinstance(effect, Append):
                self.records.append(effect.record)
            elif isinstance(effect, Committed | RolledBack):
                self.answers.append((type(effect), effect.session))
            elif isinstance(effect, Answer):
                self.answers.append(effect)
            elif isinstance(effect, Finished):
                self.answers.append((Finished, effect.producer))
            elif isinstance(effect, Opened):
                self.opened.append(effect.consumer)
            elif isinstance(effect, Requeued | BrowseEnded):
                self.answers.append((type(effect), effect.consumer))
            elif isinstance(effect, Continue):
                self.later.append(effect.work)
        self.core.effects.clear()

    def _deliver(self, effect: Deliver) -> None:
        consumer, span = effect.consumer, effect.span
        got = self.delivered.setdefault(consumer, [])
        bodies = decode(span.encoded()).tolist()
        assert effect.first_delivery == len(got) + self._forgotten.get(consumer, 0) + 1
        got += [(body, span.delivered > 0) for body in bodies]
        self.times.setdefault(consumer, []).extend([span.delivered] * len(bodies))
        self.spans.setdefault(consumer, []).append(span)
        self.frames[consumer] = self.frames.get(consumer, 0) + 1

    def forget(self, consumer: CoreConsumer) -> None:
        """What it got so far is not counted among what it gets from now on."""
        self._forgotten[consumer] = self._forgotten.get(consumer, 0) + len(self.delivered[consumer])
        self.delivered[consumer].clear()
        self.times.pop(consumer, None)
        self.spans.pop(consumer, None)

    def got(self, consumer: CoreConsumer) -> list[bytes]:
        return [body for body, _ in self.delivered[consumer]]

    def left(self, name: str) -> list[bytes]:
        """What stands in line, in the order in which it would be delivered; nothing changes."""
        return bodies_of(self.queue(name).spans())

    def queue(self, name: str) -> Queue:
        """`name` without its kind."""
        return self.core.destinations.queues[name]

    @property
    def memory(self) -> int:
        return self.core.context.memory

    @property
    def next_wake_ms(self) -> int | None:
        return self.core.wake_times[0][0] if self.core.wake_times else None

    def said(self, kind: type[RecordKind]) -> list[RecordKind]:
        """The records of one kind."""
        return [record for record in self.records if isinstance(record, kind)]
