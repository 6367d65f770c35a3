"""Transactions of AMQP 1.0: a link to the broker's coordinator declares them and ends them."""

from typing import Any, Final

from proton import Delivery, Described, Message, Terminus, symbol, ulong

from mqlab.drivers.amqp10.engine import Engine
from mqlab.drivers.amqp10.links import Out
from mqlab.drivers.api import DriverError

_DECLARED: Final = 0x33
_TRANSACTIONAL: Final = 0x34


class Transactions:
    """One at a time. `out` is the link to the coordinator."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._id: Any = None

    @classmethod
    async def open(cls, engine: Engine, session: Any, name: str) -> "Transactions":
        link = session.sender(name)
        link.target.type = Terminus.COORDINATOR
        link.target.capabilities.put_object(symbol("amqp:local-transactions"))
        out = Out(engine, link)
        await out.opened()
        return cls(out)

    async def begin(self) -> None:
        """Unless one is open."""
        if self._id is None:
            answer = await self._asked("amqp:declare:list", [None], _DECLARED)
            [self._id] = answer.remote.data

    def send(self, delivery: Any) -> None:
        """What was given to a link is a part of it."""
        delivery.local.data = [self._id]
        delivery.update(_TRANSACTIONAL)

    def accept(self, delivery: Any) -> None:
        """That it was received is a part of it."""
        delivery.local.data = [self._id, Described(ulong(Delivery.ACCEPTED), [])]
        delivery.update(_TRANSACTIONAL)

    async def commit(self) -> None:
        ended, self._id = self._id, None
        await self._asked("amqp:discharge:list", [ended, False], Delivery.ACCEPTED)

    async def _asked(self, what: str, values: list[Any], expected: int) -> Any:
        answer = await self._out.answer(Message(body=Described(symbol(what), values)).encode())
        if answer.remote_state != expected:
            raise DriverError(f"the broker refused a transaction ({answer.remote_state})")
        return answer
