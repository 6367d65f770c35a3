"""What a connection that speaks STOMP consists of, beside its socket."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from mqlab.broker.server.stomp.commands import NativeCommands
from mqlab.broker.server.stomp.handshake import ConnectHeaders
from mqlab.broker.server.stomp.messages.unpacking import header_line
from mqlab.broker.server.stomp.producers import StompProducers
from mqlab.broker.server.stomp.receipts import Receipts
from mqlab.broker.server.stomp.subscriptions import StompSubscriptions
from mqlab.broker.server.stomp.temporary_queues import TemporaryQueues
from mqlab.broker.server.stomp.transactions import StompTransactions


class StompSocket(Protocol):
    """The socket, as far as the talk is concerned."""

    def speaks(self, version: str) -> None:
        """What the client says from now on is of this version."""

    def varies(self, headers: frozenset[str]) -> None:
        """Frames that differ in the values of these headers only can be handled together."""

    def welcome(self, version: str, beat: int, expect: int) -> None:
        """It is let in. Milliseconds between heart-beats that are sent, and expected; 0: none."""

    def write(self, data: bytes) -> None: ...

    def refuse(self, message: str) -> None:
        """Say so, and end the connection."""


class StompComponents:
    """`session` is the broker's name for the connection; `exists` tells whether there is a destination of a name."""

    def __init__(self, outside: StompSocket, session: str, exists: Callable[[str], bool]) -> None:
        self.outside = outside
        self.session = session
        self.exists = exists
        self.commands = NativeCommands()
        self.receipts = Receipts(self._say_receipts)
        self.producers = StompProducers(self.commands, self.receipts)
        self.transactions = StompTransactions(self.commands, self.receipts, self.producers)
        self.subscriptions = StompSubscriptions(self.commands, self.receipts, session)
        self.temporaries = TemporaryQueues(self.commands)
        self.greeting: ConnectHeaders | None = None
        self.logged_in = False
        # It was told of an error: the last that it is told. The broker itself would go on, if it has only refused.
        self.failed = self.refused = False
        # Of the frame that cannot be done: the receipt that was wanted for it.
        self.failed_receipt = ""

    @property
    def version(self) -> str:
        return "1.0" if self.greeting is None else self.greeting.version

    def _say_receipts(self, ids: Sequence[str]) -> None:
        lines = (header_line("receipt-id", one, self.version) for one in ids)
        self.outside.write(b"".join([b"RECEIPT\n%b\n\0" % one for one in lines]))
