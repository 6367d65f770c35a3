"""StompTransactions of a connection, any number at a time: each is the transaction of a session of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mqlab.broker.server.stomp.commands import NativeCommands
from mqlab.broker.server.stomp.producers import PLAIN, StompProducers
from mqlab.broker.server.stomp.receipts import PendingReceipts, Receipts
from mqlab.broker.server.stomp.unacknowledged import IdRange
from mqlab.wire.native.frames import Kind
from mqlab.wire.stomp import StompError

if TYPE_CHECKING:
    from mqlab.broker.server.stomp.subscriptions import StompSubscription

# Sessions that are kept for the next transactions, and the producers with which one is worth keeping.
_SPARE: Final = 4
_MOST_PRODUCERS: Final = 64


class StompTransaction:
    """`settled`: what was accepted in it, or not, and is so only with its commit."""

    def __init__(self, session: int) -> None:
        self.session = session
        self.settled: list[tuple[StompSubscription, Sequence[IdRange], bool]] = []


class StompTransactions:
    def __init__(self, commands: NativeCommands, receipts: Receipts, producers: StompProducers) -> None:
        self._commands = commands
        self._receipts = receipts
        self._producers = producers
        self._open: dict[str, StompTransaction] = {}
        self._spare: list[int] = []
        # Sessions that are closed when their last transaction has ended.
        self._surplus: set[int] = set()
        self._sessions = PLAIN
        # Who waits for the end of transactions, by the session.
        self._ending: dict[int, deque[PendingReceipts]] = {}

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
        if self._spare:
            session = self._spare.pop()
        else:
            self._sessions += 1
            session = self._sessions
            self._ending[session] = deque()
            self._commands.say(Kind.OPEN_SESSION, {"transacted": True}, session=session)
        self._open[name] = StompTransaction(session)

    def commit(self, name: str, receipts: Sequence[str]) -> None:
        transaction = self[name]
        for subscription, ranges, accepted in transaction.settled:
            subscription.settle(ranges, accepted=accepted, session=transaction.session)
        self._end(name, Kind.COMMIT, receipts)

    def abort(self, name: str, receipts: Sequence[str]) -> None:
        """What it acknowledged is with the client as before, who may acknowledge it again."""
        for subscription, ranges, _ in self[name].settled:
            subscription.take_again(ranges)
        self._end(name, Kind.ROLLBACK, receipts)

    def leaves(self, subscription: StompSubscription) -> None:
        """It is about to be closed: what transactions have acknowledged of it must not go back to its queue."""
        for transaction in self._open.values():
            for one, ranges, accepted in transaction.settled:
                if one is subscription and accepted:
                    one.settle(ranges, accepted=True, session=transaction.session)
            transaction.settled = [found for found in transaction.settled if found[0] is not subscription]

    def ended(self, session: int) -> None:
        """As the broker says."""
        ending = self._ending[session]
        self._receipts.done(ending.popleft())
        if session in self._surplus and not ending:
            self._surplus.discard(session)
            del self._ending[session]
            self._producers.forget(session)
            self._commands.add(Kind.CLOSE, session=session)

    def receipts_of(self, session: int) -> Sequence[str]:
        ending = self._ending.get(session)
        return ending[-1].ids if ending else ()

    def _end(self, name: str, how: Kind, receipts: Sequence[str]) -> None:
        session = self._open.pop(name).session
        self._ending[session].append(self._receipts.expect(receipts))
        self._commands.add(how, session=session)
        if len(self._spare) < _SPARE and self._producers.count(session) <= _MOST_PRODUCERS:
            self._spare.append(session)
        else:
            self._surplus.add(session)
