"""An agent's part of one run: its connections, and the roles that it plays with them."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Final

from mqlab.drivers import DRIVERS, DriverConnection, DriverError
from mqlab.events.recorder import Recorder
from mqlab.runner.agents.assignment import ACTIVE, Assignment, Role
from mqlab.runner.agents.consumer import ConsumerRole
from mqlab.runner.agents.producer import ProducerRole
from mqlab.runner.agents.request_reply import RequesterRole, ResponderRole
from mqlab.runner.timeline import RoleCounters, Timeline
from mqlab.study import Point

# How many roles are opened concurrently.
_CONCURRENT: Final = 50

ActiveRole = ProducerRole | RequesterRole
PassiveRole = ConsumerRole | ResponderRole


class AgentSession:
    """`active` roles end by themselves; `passive` ones run until `close`."""

    def __init__(self, assignment: Assignment, recorder: Recorder) -> None:
        self.assignment = assignment
        self.active: list[ActiveRole] = []
        self.passive: list[PassiveRole] = []
        self._recorder = recorder
        self._connections: dict[str, DriverConnection] = {}
        self._playing: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Connect and open all roles; consumers first, since a subscription gets no earlier messages."""
        assignment = self.assignment
        passive = [role for role in assignment.roles if role.role not in ACTIVE]
        active = [role for role in assignment.roles if role.role in ACTIVE]
        first_roles: dict[str, Role] = {}
        for role in (*passive, *active):
            first_roles.setdefault(assignment.connection(role), role)
        await _gather([self._connect(key, assignment.application(role)) for key, role in first_roles.items()])
        for roles in (passive, active):
            await _gather([self._open(role) for role in roles])

    async def fill(self, timeline: Timeline) -> list[BaseException]:
        """Play the active roles only, before the others begin. Returns their errors."""
        results = await asyncio.gather(*(role.play(timeline) for role in self.active), return_exceptions=True)
        return [result for result in results if isinstance(result, BaseException)]

    async def play(self, timeline: Timeline) -> list[BaseException]:
        """Returns the errors of the active roles when these have ended; the passive ones go on."""
        self._playing = [asyncio.ensure_future(role.play(timeline)) for role in self.passive]
        # The queues have been filled before.
        return [] if self.assignment.point.load == "receive" else await self.fill(timeline)

    def counters(self) -> list[RoleCounters]:
        return [role.counters for role in (*self.active, *self.passive)]

    def first_failure(self) -> Exception | None:
        return next((role.failed for role in self.passive if role.failed is not None), None)

    async def close(self) -> None:
        """Stop at any time. Errors of a system that no longer answers are ignored."""
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

    async def _connect(self, key: str, application: str) -> None:
        assignment = self.assignment
        driver = DRIVERS[assignment.driver](assignment.address, assignment.options)
        self._connections[key] = await driver.connect(application)

    async def _open(self, role: Role) -> None:
        assignment, point = self.assignment, self.assignment.point
        connection, name = self._connections[assignment.connection(role)], assignment.destination(role)
        if role.role == "producer":
            sender = await connection.sender(name, persistent=point.persistent, transacted=point.transaction > 0)
            limited, bounded = self._limit_batch(point), self.assignment.is_bounded
            self.active.append(ProducerRole(role, limited, sender, self._recorder, bounded=bounded))
        elif role.role == "requester":
            requester = await connection.requester(
                name, assignment.reply_destination(role), persistent=point.persistent
            )
            self.active.append(RequesterRole(role, point, requester, self._recorder))
        elif role.role == "responder":
            how = assignment.receiving(role)
            responder = await connection.responder(name, prefetch=how.prefetch, persistent=point.persistent)
            self.passive.append(ResponderRole(role, point, responder, self._recorder))
        else:
            await self._open_consumer(role, connection, name)

    def _limit_batch(self, point: Point) -> Point:
        """The point with a batch that the driver sends efficiently, if producers do not wait for confirmations."""
        max_bytes = DRIVERS[self.assignment.driver].max_send_bytes
        if max_bytes is None or point.send != "free":
            return point
        return point.model_copy(update={"batch": min(point.batch, max(1, max_bytes // point.size))})

    async def _open_consumer(self, role: Role, connection: DriverConnection, name: str) -> None:
        how = self.assignment.receiving(role)
        consumer = ConsumerRole(role, self.assignment.point, lambda: connection.receiver(name, how), self._recorder)
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


async def _gather(work: Sequence[Coroutine[object, None, None]]) -> None:
    """Run concurrently, some at a time. Raises the first error when all that were started have ended."""
    for begin in range(0, len(work), _CONCURRENT):
        results = await asyncio.gather(*work[begin : begin + _CONCURRENT], return_exceptions=True)
        failed = [result for result in results if isinstance(result, BaseException)]
        if failed:
            for not_started in work[begin + _CONCURRENT :]:
                not_started.close()
            raise failed[0]
