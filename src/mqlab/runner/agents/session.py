"""An agent's part of one run: its connections, and the roles that it plays with them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from mqlab.drivers import DRIVERS, DriverConnection, DriverError, Receiver, Sender
from mqlab.events.recorder import Recorder
from mqlab.events.schema import TravelRow
from mqlab.runner.agents.assignment import ACTIVE, Assignment, Role
from mqlab.runner.agents.consumer import ConsumerRole
from mqlab.runner.agents.producer import ProducerRole
from mqlab.runner.agents.receipts import ReceivedNumbers
from mqlab.runner.agents.request_reply import RequesterRole, ResponderRole
from mqlab.runner.timeline import RoleCounters, Timeline

# How many roles are opened concurrently.
_CONCURRENT: Final = 50

# Between two attempts to connect again.
_RETRY_SECONDS: Final = 0.02

Link = TypeVar("Link")
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
        # In a run with faults: the messages that came; and connections that were lost, which are closed meanwhile.
        self.received = ReceivedNumbers() if assignment.point.faults else None
        self._reconnecting: dict[str, asyncio.Lock] = {}
        self._closing: dict[DriverConnection, asyncio.Future[None]] = {}
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

    def travel(self) -> list[TravelRow]:
        """The records, messages and frames that each role sent and received."""
        return [self._travel(role) for role in (*self.active, *self.passive)]

    def _travel(self, role: ActiveRole | PassiveRole) -> TravelRow:
        counters, driver = role.counters, DRIVERS[self.assignment.driver]
        sent, received = counters.sent_messages, counters.received_messages
        # After a fault a role has another link, which does not know the frames of the former one.
        is_known = role.link is not None and self.received is None
        link_frames = role.link.frames if role.link is not None and is_known else None
        if self.assignment.packed > 1 and driver.has_batches and link_frames is not None:
            # The records of a packed batch come as rows: each frame is one message.
            received = min(received, link_frames)

        def frames(messages: int) -> int | None:
            return messages if not messages or (driver.frame_each and link_frames is None and is_known) else link_frames

        return TravelRow(
            role=role.role.role, number=role.role.number, waits=counters.waits,
            sent_records=counters.sent, sent_messages=sent, sent_frames=frames(sent),
            received_records=counters.received, received_messages=received, received_frames=frames(received),
        )  # fmt: skip

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
        await asyncio.gather(*self._closing.values(), return_exceptions=True)
        self._connections = {}

    async def _connect(self, key: str, application: str) -> None:
        assignment = self.assignment
        driver = DRIVERS[assignment.driver](assignment.address, assignment.options)
        self._connections[key] = await driver.connect(application)

    async def _reopen(self, role: Role, open_link: Callable[[DriverConnection], Awaitable[Link]]) -> Link:
        """A new link of a role whose link has failed, as soon as the system lets it connect."""
        key = self.assignment.connection(role)
        while True:
            # Also before the first attempt: a system that refuses messages lets clients connect.
            await asyncio.sleep(_RETRY_SECONDS)
            failed = self._connections[key]
            try:
                async with self._reconnecting.setdefault(key, asyncio.Lock()):
                    # Another role with the same connection may have been here before.
                    if self._connections[key] is failed:
                        if failed not in self._closing:
                            self._closing[failed] = asyncio.ensure_future(failed.close())
                        await self._connect(key, self.assignment.application(role))
                return await open_link(self._connections[key])
            except DriverError:
                continue

    async def _open(self, role: Role) -> None:
        assignment, point = self.assignment, self.assignment.point
        connection, name = self._connections[assignment.connection(role)], assignment.destination(role)
        if role.role == "producer":

            def open_sender(connection: DriverConnection) -> Awaitable[Sender]:
                return connection.sender(name, persistent=point.persistent, transacted=point.transaction > 0)

            self.active.append(ProducerRole(
                role, point, await open_sender(connection), self._recorder, max_send=assignment.max_send,
                packed=assignment.packed > 1, bounded=assignment.is_bounded,
                reopen=partial(self._reopen, role, open_sender) if point.faults else None,
            ))  # fmt: skip
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

    async def _open_consumer(self, role: Role, connection: DriverConnection, name: str) -> None:
        how = self.assignment.receiving(role)

        def open_receiver(connection: DriverConnection) -> Awaitable[Receiver]:
            return connection.receiver(name, how)

        async def open_first_or_again() -> Receiver:
            if consumer.link is None:
                return await open_receiver(connection)
            return await self._reopen(role, open_receiver)

        consumer = ConsumerRole(
            role, self.assignment.point, open_first_or_again, self._recorder, packed=how.packed, received=self.received
        )
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
