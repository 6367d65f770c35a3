"""The queues of a run on which messages stay: filled before it, or left by it. The system says how many there are."""

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from mqlab.runner.agents.assignment import Assignment, destination_name
from mqlab.runner.agents.handle import AgentProcess, BrokenRunError, check
from mqlab.runner.broker_location import BrokerLocation
from mqlab.study import Point
from mqlab.systems import Running

_POLL_SECONDS: Final = 0.02


class StandingQueues:
    """All methods raise BrokenRunError, AgentLostError and SystemFailedError."""

    def __init__(self, run: int, point: Point, driver: str, site: BrokerLocation) -> None:
        self._run = run
        self._point = point
        self._driver = driver
        self._site = site
        # The reply queues, or the queues; with whom they are.
        step, at = (2, 1) if point.pattern == "request-reply" else (1, 0)
        self._numbers = range(at, point.destinations * step, step)
        self._near = point.pattern == "request-reply"
        if point.preload and not self._near and not point.selector:
            raise BrokenRunError("preload: the consumers would take the messages, since they have no selector")

    async def preload(self, agents: list[AgentProcess]) -> None:
        """Messages that nobody takes, put by a client of its own that leaves."""
        point, messages = self._point, self._point.preload
        which = 0 if self._near or not self._site.remote else 1
        names = [self._name(number) for number in self._numbers]
        check(await agents[which].ask(
            "preload", driver=self._driver, address=self._site.addresses[which],
            options=dict(self._site.near.options), queues=names, messages=messages, size=point.size,
            persistent=point.persistent,
        ))  # fmt: skip
        for name in names:
            await self._must_have(name, messages)

    async def check_filled(self, sent: Mapping[int, int], assignments: list[Assignment]) -> None:
        """All that was sent waits for those who will receive it."""
        if self._point.domain == "queue":
            for number, messages in sent.items():
                await self._must_have(self._name(number), messages)
            return
        for assignment in assignments:
            for role in assignment.roles:
                if role.role == "consumer":
                    name = f"subscription:{assignment.receiving(role).durable}"
                    await self._must_have(name, sent.get(role.destination, 0))

    async def check_left(self, sent: Mapping[int, int]) -> None:
        """What nobody took is still there, and no longer than that."""
        left = dict.fromkeys(self._numbers, self._point.preload) if self._point.preload else {}
        if self._point.load == "send" and self._point.domain == "queue":
            left = {number: left.get(number, 0) + messages for number, messages in sent.items()}
        for number, messages in left.items():
            await self._must_have(self._name(number), messages)
            await self._at.remove(self._name(number))

    @property
    def _at(self) -> Running:
        return self._site.near if self._near else self._site.far

    def _name(self, number: int) -> str:
        return destination_name(self._run, self._point, number, self._site.near.tag)

    async def _must_have(self, name: str, messages: int) -> None:
        """Maybe not at once: some may be on their way from another broker."""
        deadline = time.monotonic() + self._point.phases.drain
        while (depth := await self._at.depth(name)) < messages and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_SECONDS)
        if depth != messages:
            raise BrokenRunError(f"{name} has {depth:,} messages where there should be {messages:,}")
