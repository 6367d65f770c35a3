"""The components of a STOMP connection, beside its socket."""

from collections.abc import Callable, Sequence
from typing import Protocol

from mqlab.broker import limits
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.destination_names import check_name
from mqlab.broker.server.adapter.commands import NativeCommands
from mqlab.broker.server.adapter.producers import AdapterProducers
from mqlab.broker.server.adapter.receipts import PendingReceipts, Receipts
from mqlab.broker.server.adapter.state import AdapterState
from mqlab.broker.server.stomp.handshake import ConnectHeaders
from mqlab.broker.server.stomp.messages.destination_names import TEMPORARY, native_name
from mqlab.broker.server.stomp.messages.unpacking import header_line
from mqlab.broker.server.stomp.state_table import StompStage
from mqlab.broker.server.stomp.subscriptions import StompSubscriptions
from mqlab.broker.server.stomp.transactions import StompTransactions
from mqlab.json_values import JsonObject


class TemporaryQueues:
    """The client's names for its temporary queues, and the broker's."""

    def __init__(self, commands: NativeCommands) -> None:
        self._commands = commands
        # The broker's name by the client's; "" until the broker has created the queue.
        self._names: dict[str, str] = {}

    def ready(self, written: str) -> bool:
        """Whether the destination can be used; the first use of a temporary queue creates it. Raises CommandError."""
        if not written.startswith(TEMPORARY):
            return True
        if written not in self._names:
            check_name(written.removeprefix(TEMPORARY), "the name of a temporary queue")
            if len(self._names) >= limits.LINKS_A_CONNECTION:
                raise CommandError(f"a connection has at most {limits.LINKS_A_CONNECTION} temporary queues")
            self._names[written] = ""
            self._commands.request({"ask": "temporary"}, lambda answer: self._created(written, answer))
        return bool(self._names[written])

    def name(self, written: str) -> str:
        """The broker's name for a destination. Raises BadNameError."""
        return self._names.get(written) or native_name(written)

    def _created(self, written: str, answer: JsonObject) -> None:
        self._names[written] = str(answer["name"])


class StompSocket(Protocol):
    """The connection, as its decoder and encoder see it."""

    def set_version(self, version: str) -> None:
        """The client uses this version of STOMP from now on."""

    def set_varying_headers(self, headers: frozenset[str]) -> None:
        """Frames that differ only in the values of these headers can be handled together."""

    def login_done(self, send_ms: int, expect_ms: int) -> None:
        """The login is done. The intervals of heart-beats that the broker sends, and expects; 0: none."""

    def write(self, data: bytes) -> None: ...

    def refuse(self, message: str) -> None:
        """Send an ERROR frame and end the connection."""


class StompComponents(AdapterState):
    """`session` is the broker's name for the connection; `exists` says whether a destination exists.

    `clock_ms`: the time by which durations of the client begin.
    """

    def __init__(
        self, socket: StompSocket, session: str, exists: Callable[[str], bool], clock_ms: Callable[[], int]
    ) -> None:
        super().__init__()
        self.socket = socket
        self.session = session
        self.exists = exists
        self.clock_ms = clock_ms
        self.receipts = Receipts(self._write_receipts)
        self.producers: AdapterProducers[PendingReceipts[str]] = AdapterProducers(self.commands, self.receipts.done)
        self.transactions = StompTransactions(self.commands, self.receipts, self.producers)
        self.subscriptions = StompSubscriptions(self.commands, self.receipts, session)
        self.temporary_queues = TemporaryQueues(self.commands)
        self.connect_headers: ConnectHeaders | None = None
        self.stage = StompStage.CONNECT
        # The receipt that the client wants for the frame that failed.
        self.failed_receipt = ""

    @property
    def version(self) -> str:
        return "1.0" if self.connect_headers is None else self.connect_headers.version

    def _write_receipts(self, ids: Sequence[str]) -> None:
        lines = (header_line("receipt-id", receipt, self.version) for receipt in ids)
        self.socket.write(b"".join([b"RECEIPT\n%b\n\0" % line for line in lines]))
