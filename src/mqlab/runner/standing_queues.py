"""Queues whose messages stay: filled before a run, or not consumed by it. The runner checks their depths."""

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from mqlab.runner.agents.assignment import Assignment, destination_name
from mqlab.runner.agents.handle import AgentHandle, BrokenRunError, check_answer
from mqlab.runner.broker_location import BrokerLocation
from mqlab.study import Point
from mqlab.systems import Running, SystemFailedError

_POLL_SECONDS: Final = 0.02


class StandingQueues:
    """All methods raise BrokenRunError, AgentLostError and SystemFailedError."""

    def __init__(self, run: int, point: Point, driver: str, location: BrokerLocation, tag: str) -> None:
        self._run = run
        self._point = point
        self._driver = driver
        self._location = location
        self._tag = tag
        # Of pairs of queues only the reply queues; they are on the requesters' broker.
        self._are_replies = point.pattern == "request-reply"
        step, first = (2, 1) if self._are_replies else (1, 0)
        self._numbers = range(first, point.destinations * step, step)
        if point.preload and not self._are_replies and not point.selector:
            raise BrokenRunError("preload: the consumers would take the messages, since they have no selector")

    async def preload(self, agents: list[AgentHandle]) -> None:
        """Put messages on the queues that no consumer receives."""
        point, messages = self._point, self._point.preload
        agent = 0 if self._are_replies or not self._location.remote else 1
        names = [self._name(number) for number in self._numbers]
        check_answer(await agents[agent].ask(
            "preload", driver=self._driver, address=self._location.addresses[agent],
            options=dict(self._location.first.options), queues=names, messages=messages, size=point.size,
            persistent=point.persistent,
        ))  # fmt: skip
        for name in names:
            await self._check_depth(name, messages)

    async def check_filled(self, sent: Mapping[int, int], assignments: list[Assignment]) -> None:
        """Check that all messages that were sent are on the queues or subscriptions of the consumers."""
        if self._point.domain == "queue":
            for number, messages in sent.items():
                await self._check_depth(self._name(number), messages)
            return
        for assignment in assignments:
            for role in assignment.roles:
                if role.role == "consumer":
                    name = f"subscription:{assignment.receiving(role).durable}"
                    await self._check_depth(name, sent.get(role.destination, 0))

    async def check_remaining(self, sent: Mapping[int, int]) -> None:
        """Check that messages that no consumer receives are still there, and remove their queues."""
        remaining = dict.fromkeys(self._numbers, self._point.preload) if self._point.preload else {}
        if self._point.load == "send" and self._point.domain == "queue":
            remaining = {number: remaining.get(number, 0) + messages for number, messages in sent.items()}
        for number, messages in remaining.items():
            await self._check_depth(self._name(number), messages)
            await self._broker.remove(self._name(number))

    @property
    def _broker(self) -> Running:
        return self._location.first if self._are_replies else self._location.last

    def _name(self, number: int) -> str:
        return destination_name(self._run, self._point, number, self._tag)

    async def _check_depth(self, name: str, messages: int) -> None:
        """Raises BrokenRunError for another depth, after a wait: messages may still be on their way between brokers."""
        deadline = time.monotonic() + self._point.phases.drain
        while (depth := await self._depth(name, deadline)) < messages and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_SECONDS)
        if depth != messages:
            raise BrokenRunError(f"{name} has {depth:,} messages where there should be {messages:,}")

    async def _depth(self, name: str, deadline: float) -> int:
        """0 for a queue that is not there: before the deadline, its first message may be on its way from a broker."""
        try:
            return await self._broker.depth(name)
        except SystemFailedError:
            if not self._location.remote or time.monotonic() >= deadline:
                raise
            return 0
