"""What an agent has of one run: its connections, and the roles it plays with them."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

from mqlab.drivers import DRIVERS, Connection, DriverError
from mqlab.runner.agents.assignment import ACTIVE, Assignment, Role
from mqlab.runner.agents.consumer import ConsumerRole
from mqlab.runner.agents.producer import ProducerRole
from mqlab.runner.agents.requester import RequesterRole
from mqlab.runner.agents.responder import ResponderRole
from mqlab.runner.timeline import Log, RoleCounters, Timeline
from mqlab.study import Point

# Roles that are opened side by side: quicker than one after the other, and no flood.
_AT_ONCE: Final = 50

ActiveRole = ProducerRole | RequesterRole
PassiveRole = ConsumerRole | ResponderRole


class AgentSession:
    """`active` roles begin and come to an end by themselves, `passive` ones are told when it is over."""

    def __init__(self, assignment: Assignment, log: Log) -> None:
        self.assignment = assignment
        self.active: list[ActiveRole] = []
        self.passive: list[PassiveRole] = []
        self._log = log
        self._connections: dict[str, Connection] = {}
        self._playing: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Connect and open all roles; consumers first: what is published before they are there, they never get."""
        assignment = self.assignment
        passive = [role for role in assignment.roles if role.role not in ACTIVE]
        active = [role for role in assignment.roles if role.role in ACTIVE]
        first: dict[str, Role] = {}
        for role in (*passive, *active):
            first.setdefault(assignment.connection(role), role)
        await _side_by_side([self._connect(word, assignment.application(role)) for word, role in first.items()])
        for roles in (passive, active):
            await _side_by_side([self._open(role) for role in roles])

    async def fill(self, timeline: Timeline) -> list[BaseException]:
        """Active roles alone, before the others begin. Returns what went wrong."""
        results = await asyncio.gather(*(role.play(timeline) for role in self.active), return_exceptions=True)
        return [result for result in results if isinstance(result, BaseException)]

    async def play(self, timeline: Timeline) -> list[BaseException]:
        """Returns when the active roles have come to their end, with what went wrong; the passive ones go on."""
        self._playing = [asyncio.ensure_future(role.play(timeline)) for role in self.passive]
        # A queue that was filled before has all its messages.
        return [] if self.assignment.point.load == "receive" else await self.fill(timeline)

    def tallies(self) -> list[RoleCounters]:
        return [role.tally for role in (*self.active, *self.passive)]

    def failed(self) -> Exception | None:
        return next((role.failed for role in self.passive if role.failed is not None), None)

    async def close(self) -> None:
        """Stop, wherever it is. A system that does not answer any more is not waited for."""
        for task in self._playing:
            task.cancel()
        await asyncio.gather(*self._playing, return_exceptions=True)
        for role in self.passive:
            with suppress(DriverError):
                await role.close()
        await self._unsubscribe()
        for connection in self._connections.values():
            with suppress(DriverError):
                await connection.close()
        self._connections = {}

    async def _connect(self, word: str, application: str) -> None:
        assignment = self.assignment
        driver = DRIVERS[assignment.driver](assignment.address, assignment.options)
        self._connections[word] = await driver.connect(application)

    async def _open(self, role: Role) -> None:
        assignment, point = self.assignment, self.assignment.point
        connection, name = self._connections[assignment.connection(role)], assignment.destination(role)
        if role.role == "producer":
            sender = await connection.sender(name, persistent=point.persistent, transacted=point.transaction > 0)
            played, bounded = self._in_pieces(point), self.assignment.is_bounded
            self.active.append(ProducerRole(role, played, sender, self._log, bounded=bounded))
        elif role.role == "requester":
            requester = await connection.requester(name, assignment.replies(role), persistent=point.persistent)
            self.active.append(RequesterRole(role, point, requester, self._log))
        elif role.role == "responder":
            how = assignment.receiving(role)
            responder = await connection.responder(name, prefetch=how.prefetch, persistent=point.persistent)
            self.passive.append(ResponderRole(role, point, responder, self._log))
        else:
            await self._open_consumer(role, connection, name)

    def _in_pieces(self, point: Point) -> Point:
        """A producer that waits for nothing gives its driver no more at once than does it good."""
        most = DRIVERS[self.assignment.driver].max_send_bytes
        if most is None or point.send != "free":
            return point
        return point.model_copy(update={"batch": min(point.batch, max(1, most // point.size))})

    async def _open_consumer(self, role: Role, connection: Connection, name: str) -> None:
        how = self.assignment.receiving(role)
        consumer = ConsumerRole(role, self.assignment.point, lambda: connection.receiver(name, how), self._log)
        if self.assignment.point.load != "receive":
            await consumer.open()
        elif how.durable:
            await connection.subscribe(name, how)
        self.passive.append(consumer)

    async def _unsubscribe(self) -> None:
        for role in self.passive:
            if isinstance(role, ConsumerRole) and self.assignment.point.durable:
                connection = self._connections[self.assignment.connection(role.role)]
                with suppress(DriverError):
                    await connection.unsubscribe(self.assignment.receiving(role.role).durable)


async def _side_by_side(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Raises the first error, once nothing is under way any more."""
    for begin in range(0, len(work), _AT_ONCE):
        results = await asyncio.gather(*work[begin : begin + _AT_ONCE], return_exceptions=True)
        failed = [result for result in results if isinstance(result, BaseException)]
        if failed:
            for rest in work[begin + _AT_ONCE :]:
                rest.close()
            raise failed[0]
