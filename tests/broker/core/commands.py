"""Commands to a core in one line each, and its effects as plain values."""

from pathlib import Path
from typing import Any

from mqlab.broker.core.broker import Core
from mqlab.broker.core.effects import Append, Committed, Confirm, Credit, Deliver, Finished, RolledBack
from mqlab.broker.core.links import Consumer, Producer, Session
from mqlab.broker.core.records import Record
from mqlab.broker.settings import Settings
from mqlab.wire.bodies import decode, encode


class Driven:
    """A core whose effects are taken after every command. Its journal is durable when `sync()` is called."""

    def __init__(self, *, stored: bool = True, **settings: Any) -> None:
        self.core = Core(Settings(data=Path("unused") if stored else None, **settings))
        self.delivered: dict[Consumer, list[tuple[bytes, bool]]] = {}
        self.frames: dict[Consumer, int] = {}
        self.confirmed: list[tuple[Producer, int]] = []
        self.credit: dict[Producer, int] = {}
        self.answers: list[object] = []
        self.records: list[Record] = []
        self._links = 0

    def session(self, *, transacted: bool = False) -> Session:
        self._links += 1
        return Session(self, self._links, transacted)

    def producer(self, name: str, session: Session | None = None) -> Producer:
        self._links += 1
        producer = self.core.open_producer(session or self.session(), self._links, name)
        self.take()
        return producer

    def consumer(self, name: str, credit: int = 1000, session: Session | None = None) -> Consumer:
        self._links += 1
        consumer = self.core.open_consumer(session or self.session(), self._links, name, credit)
        self.delivered.setdefault(consumer, [])
        self.take()
        return consumer

    def send(
        self, producer: Producer, *bodies: bytes, persistent: bool = False, confirm: bool = False, seq: int = 0
    ) -> None:
        self.core.send(producer, encode(bodies), seq or len(bodies), persistent=persistent, confirm=confirm)
        self.take()

    def acknowledge(self, consumer: Consumer, up_to: int, credit: int = 0) -> None:
        self.core.acknowledge(consumer, up_to, credit)
        self.take()

    def sync(self) -> None:
        self.core.durable(self.core.lsn)
        self.take()

    def do(self, command: Any, *arguments: Any) -> None:
        command(*arguments)
        self.take()

    def take(self) -> None:
        for effect in self.core.effects:
            if isinstance(effect, Deliver):
                bodies = decode(effect.span.encoded()).tolist()
                got = self.delivered.setdefault(effect.consumer, [])
                got += [(body, effect.span.redelivered) for body in bodies]
                self.frames[effect.consumer] = self.frames.get(effect.consumer, 0) + 1
            elif isinstance(effect, Confirm):
                self.confirmed.append((effect.producer, effect.seq))
            elif isinstance(effect, Credit):
                self.credit[effect.producer] = self.credit.get(effect.producer, 0) + effect.size
            elif isinstance(effect, Append):
                self.records.append(effect.record)
            elif isinstance(effect, Committed | RolledBack):
                self.answers.append((type(effect), effect.session))
            elif isinstance(effect, Finished):
                self.answers.append((Finished, effect.producer))
        self.core.effects.clear()

    def got(self, consumer: Consumer) -> list[bytes]:
        return [body for body, _ in self.delivered[consumer]]
