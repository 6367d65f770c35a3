"""The transactions of a STOMP connection. Each open transaction has a session of its own."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from mqlab.broker.server.adapter.commands import NativeCommands
from mqlab.broker.server.adapter.id_ranges import IdRange
from mqlab.broker.server.adapter.producers import PLAIN, AdapterProducers
from mqlab.broker.server.adapter.receipts import PendingReceipts, Receipts
from mqlab.broker.server.stomp.subscriptions import Outcome, StompSubscription
from mqlab.wire.native.frames import Kind
from mqlab.wire.stomp.frames import StompError

# Idle sessions that stay open for later transactions, and the most producers that such a session may have.
_MOST_IDLE: Final = 4
_MOST_PRODUCERS: Final = 64


class StompTransaction:
    """`settled`: its ACKs and NACKs, which take effect with the commit."""

    def __init__(self, session: int) -> None:
        self.session = session
        self.settled: list[tuple[StompSubscription, Sequence[IdRange], Outcome]] = []


class StompTransactions:
    def __init__(
        self, commands: NativeCommands, receipts: Receipts[str], producers: AdapterProducers[PendingReceipts[str]]
    ) -> None:
        self._commands = commands
        self._receipts = receipts
        self._producers = producers
        self._open: dict[str, StompTransaction] = {}
        self._idle: list[int] = []
        # Sessions to close when their last transaction has ended.
        self._to_close: set[int] = set()
        self._sessions = PLAIN
        # Receipts for COMMIT and ABORT, by session.
        self._ending: dict[int, deque[PendingReceipts[str]]] = {}

    def __getitem__(self, name: str) -> StompTransaction:
        """Raises StompError."""
        if name not in self._open:
            raise StompError(f"there is no transaction {name[:80]!r}")
        return self._open[name]

    def begin(self, name: str) -> None:
        if not name:
            raise StompError("a transaction needs a name")
        if name in self._open:
            raise StompError(f"transaction {name[:80]!r} has begun already")
        if self._idle:
            session = self._idle.pop()
        else:
            self._sessions += 1
            session = self._sessions
            self._ending[session] = deque()
            self._commands.add_json(Kind.OPEN_SESSION, {"transacted": True}, session=session)
        self._open[name] = StompTransaction(session)

    def commit(self, name: str, receipts: Sequence[str]) -> None:
        transaction = self[name]
        for subscription, ranges, outcome in transaction.settled:
            subscription.settle(ranges, outcome, transaction.session)
        self._end(name, Kind.COMMIT, receipts)

    def abort(self, name: str, receipts: Sequence[str]) -> None:
        """Messages that it acknowledged are unacknowledged again."""
        for subscription, ranges, _ in self[name].settled:
            subscription.restore(ranges)
        self._end(name, Kind.ROLLBACK, receipts)

    def subscription_closing(self, subscription: StompSubscription) -> None:
        """Send the acknowledgements of open transactions now, so that the messages do not return to their queue."""
        for transaction in self._open.values():
            for settled_by, ranges, outcome in transaction.settled:
                if settled_by is subscription and outcome is Outcome.ACCEPTED:
                    subscription.settle(ranges, outcome, transaction.session)
            transaction.settled = [entry for entry in transaction.settled if entry[0] is not subscription]

    def ended(self, session: int) -> None:
        """The broker has committed or rolled back."""
        ending = self._ending[session]
        self._receipts.done(ending.popleft())
        if session in self._to_close and not ending:
            self._to_close.discard(session)
            del self._ending[session]
            self._producers.forget(session)
            self._commands.add(Kind.CLOSE, session=session)

    def receipts_of(self, session: int) -> Sequence[str]:
        ending = self._ending.get(session)
        return ending[-1].ids if ending else ()

    def _end(self, name: str, kind: Kind, receipts: Sequence[str]) -> None:
        session = self._open.pop(name).session
        self._ending[session].append(self._receipts.expect(receipts))
        self._commands.add(kind, session=session)
        if len(self._idle) < _MOST_IDLE and self._producers.count(session) <= _MOST_PRODUCERS:
            self._idle.append(session)
        else:
            self._to_close.add(session)
