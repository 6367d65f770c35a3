"""The transactions of an AMQP connection. Each open transaction has a native session of its own."""

from collections import deque
from typing import Final, Protocol

from mqlab.broker.server.adapter.commands import NativeCommands
from mqlab.broker.server.amqp.errors import LIMIT_EXCEEDED, TRANSACTION_ROLLBACK, UNKNOWN_TRANSACTION, LinkError
from mqlab.broker.server.amqp.producers import AmqpProducers, Callback
from mqlab.wire.native.frames import Kind

# Idle sessions that stay open for later transactions, and the most open transactions of a connection.
_MOST_IDLE: Final = 4
_MOST_OPEN: Final = 256
# The first native session of a transaction; those before are for links.
_FIRST_SESSION: Final = 3


class Settlement(Protocol):
    """Deliveries of one link that a transaction acknowledges, and their outcome."""

    def commit(self, session: int) -> None:
        """Apply the outcome in the transaction of this native session."""

    def roll_back(self) -> None: ...

    def belongs_to(self, link: object) -> bool: ...


class AmqpTransaction:
    def __init__(self, session: int) -> None:
        self.session = session
        self.settlements: list[Settlement] = []
        # The broker refused a message: the transaction can only be rolled back.
        self.failure: LinkError | None = None


class AmqpTransactions:
    def __init__(self, commands: NativeCommands, producers: AmqpProducers) -> None:
        self._commands = commands
        self._producers = producers
        self._open: dict[bytes, AmqpTransaction] = {}
        # By native session: transactions whose messages still wait for credit.
        self._discharging: dict[int, AmqpTransaction] = {}
        self._idle: list[int] = []
        self._last_session = _FIRST_SESSION - 1
        self._last_id = 0
        # Callbacks for the ends of transactions, by native session.
        self._ending: dict[int, deque[Callback]] = {}

    def declare(self) -> bytes:
        """The id of a new transaction. Raises LinkError."""
        if len(self._open) >= _MOST_OPEN:
            raise LinkError(LIMIT_EXCEEDED, f"a connection has at most {_MOST_OPEN} open transactions")
        if self._idle:
            session = self._idle.pop()
        else:
            session = self._last_session = self._last_session + 1
            self._ending[session] = deque()
            self._commands.add_json(Kind.OPEN_SESSION, {"transacted": True}, session=session)
        self._last_id += 1
        name = self._last_id.to_bytes(8)
        self._open[name] = AmqpTransaction(session)
        return name

    def get(self, name: bytes) -> AmqpTransaction:
        """Raises LinkError."""
        transaction = self._open.get(name)
        if transaction is None:
            raise LinkError(UNKNOWN_TRANSACTION, "there is no such transaction, or it has ended")
        return transaction

    def discharge(self, name: bytes, ended: Callback, *, fail: bool) -> None:
        """Commit, or roll back; a transaction that cannot be committed is rolled back. Raises LinkError."""
        transaction = self.get(name)
        del self._open[name]
        self._discharging[transaction.session] = transaction
        # Messages of the transaction may still wait for credit.
        self._producers.when_sent(transaction.session, lambda: self._discharge(transaction, ended, fail=fail))

    def _discharge(self, transaction: AmqpTransaction, ended: Callback, *, fail: bool) -> None:
        del self._discharging[transaction.session]
        failure = transaction.failure
        rolls_back = fail or failure is not None
        for settlement in transaction.settlements:
            if rolls_back:
                settlement.roll_back()
            else:
                settlement.commit(transaction.session)
        if rolls_back and not fail:
            self._end(transaction.session, Kind.ROLLBACK, lambda _: ended(failure))
        else:
            self._end(transaction.session, Kind.ROLLBACK if fail else Kind.COMMIT, ended)

    def in_use(self, session: int) -> AmqpTransaction | None:
        found = (transaction for transaction in self._open.values() if transaction.session == session)
        return next(found, self._discharging.get(session))

    def link_closing(self, link: object) -> None:
        """A consumer closes: apply its settlements now, so that its messages do not return to their queue."""
        for transaction in self._open.values():
            for settlement in transaction.settlements:
                if settlement.belongs_to(link):
                    settlement.commit(transaction.session)
            transaction.settlements = [item for item in transaction.settlements if not item.belongs_to(link)]

    # From the broker

    def ended(self, session: int) -> None:
        """The broker has committed or rolled back."""
        if self._ending.get(session):
            self._ending[session].popleft()(None)

    def refused(self, session: int, error: LinkError) -> None:
        """The broker has refused a commit, or a message of an open transaction."""
        ending = self._ending.get(session)
        if ending:
            ended = ending.popleft()
            self._end(session, Kind.ROLLBACK, lambda _: ended(LinkError(TRANSACTION_ROLLBACK, str(error))))
            return
        transaction = self.in_use(session)
        if transaction is not None and transaction.failure is None:
            transaction.failure = LinkError(TRANSACTION_ROLLBACK, str(error))

    def _end(self, session: int, kind: Kind, ended: Callback) -> None:
        self._ending[session].append(ended)
        self._commands.add(kind, session=session)
        if session not in self._idle and self.in_use(session) is None:
            self._idle.append(session)
