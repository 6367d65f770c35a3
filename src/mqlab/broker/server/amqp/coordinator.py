"""The link to the coordinator: a client declares and discharges transactions with messages on it."""

from functools import partial

from mqlab.broker.server.amqp.context import AmqpContext
from mqlab.broker.server.amqp.errors import DECODE_ERROR, NOT_IMPLEMENTED, LinkError
from mqlab.broker.server.amqp.producer_link import IncomingLink, ProducerSession
from mqlab.wire.amqp10 import sections
from mqlab.wire.amqp10.decoder import decode
from mqlab.wire.amqp10.encoder import encode_symbols
from mqlab.wire.amqp10.performatives import (
    Accepted,
    Attach,
    Coordinator,
    Declared,
    DeclareTransaction,
    Discharge,
    Rejected,
    Transfer,
    composite,
    parse,
)
from mqlab.wire.amqp10.types import AmqpDecodeError


class CoordinatorLink(IncomingLink):
    """Transactions that the client has not discharged when the link ends are rolled back."""

    def __init__(self, context: AmqpContext, session: ProducerSession, attach: Attach) -> None:
        super().__init__(context, session, attach)
        self._declared: set[bytes] = set()

    def open(self) -> None:
        capabilities = encode_symbols(["amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn"])
        self._answer_attach(composite(Coordinator(capabilities)))

    def _take(self, first: Transfer, last: Transfer, data: bytes) -> None:  # noqa: ARG002 - the last has no state
        try:
            command = _command(data)
        except AmqpDecodeError as error:
            raise LinkError(DECODE_ERROR, str(error)) from None
        transactions, delivery = self._context.transactions, first.delivery_id
        assert delivery is not None
        self._context.producers.flush()
        try:
            if isinstance(command, DeclareTransaction):
                if command.global_id is not None:
                    raise LinkError(NOT_IMPLEMENTED, "distributed transactions are not supported")
                name = transactions.declare()
                self._declared.add(name)
                self._settle(delivery, composite(Declared(name)))
            elif isinstance(command, Discharge):
                self._declared.discard(command.txn_id)
                ended = partial(self._ended, delivery)
                transactions.discharge(command.txn_id, ended, fail=command.fail is True)
            else:
                raise LinkError(NOT_IMPLEMENTED, "the coordinator takes declare and discharge")
        except LinkError as error:
            self._ended(delivery, error)

    def _ended(self, delivery: int, error: LinkError | None) -> None:
        self._settle(delivery, composite(Accepted() if error is None else Rejected(error.fields())))

    def _release(self) -> None:
        super()._release()
        declared, self._declared = self._declared, set()
        for name in declared:
            self._context.transactions.discharge(name, lambda _: None, fail=True)


def _command(data: bytes) -> object:
    """The value in the body of the message. Raises AmqpDecodeError."""
    for section in sections.split_sections(data):
        if section.code == sections.VALUE:
            value, _ = decode(data, section.value_at)
            return parse(value)
    raise AmqpDecodeError("a message to the coordinator has a value")
