"""Transactions of AMQP 1.0, which a link to the broker's coordinator declares and discharges."""

from typing import Any, Final

from proton import Delivery, Described, Message, Terminus, symbol, ulong

from mqlab.drivers.amqp10.client import Amqp10Client
from mqlab.drivers.amqp10.links import SendingLink
from mqlab.drivers.api import DriverError

_DECLARED: Final = 0x33
_TRANSACTIONAL: Final = 0x34


class TransactionCoordinator:
    """The transactions of one session, one at a time. `sending` is the link to the coordinator."""

    def __init__(self, sending: SendingLink) -> None:
        self._sending = sending
        self._id: Any = None

    @classmethod
    async def open(cls, client: Amqp10Client, session: Any, name: str) -> "TransactionCoordinator":
        link = session.sender(name)
        link.target.type = Terminus.COORDINATOR
        link.target.capabilities.put_object(symbol("amqp:local-transactions"))
        sending = SendingLink(client, link)
        await sending.attach()
        return cls(sending)

    async def begin(self) -> None:
        """Declare a transaction, unless one is open."""
        if self._id is None:
            answer = await self._call("amqp:declare:list", [None], _DECLARED)
            [self._id] = answer.remote.data

    def send(self, delivery: Any) -> None:
        """Make a sent message part of the transaction."""
        delivery.local.data = [self._id]
        delivery.update(_TRANSACTIONAL)

    def accept(self, delivery: Any) -> None:
        """Accept a received message as part of the transaction."""
        delivery.local.data = [self._id, Described(ulong(Delivery.ACCEPTED), [])]
        delivery.update(_TRANSACTIONAL)

    async def commit(self) -> None:
        transaction_id, self._id = self._id, None
        await self._call("amqp:discharge:list", [transaction_id, False], Delivery.ACCEPTED)

    async def _call(self, operation: str, values: list[Any], expected: int) -> Any:
        answer = await self._sending.call(Message(body=Described(symbol(operation), values)).encode())
        if answer.remote_state != expected:
            raise DriverError(f"the broker refused a transaction ({answer.remote_state})")
        return answer
