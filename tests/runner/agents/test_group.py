"""The end of a drain: every message has come, not only as many messages as were sent."""

import asyncio
from typing import cast

import pytest

from mqlab.json_values import JsonObject
from mqlab.runner.agents.assignment import Role
from mqlab.runner.agents.group import AgentGroup
from mqlab.runner.agents.handle import AgentHandle
from mqlab.runner.agents.receipts import ReceivedNumbers


class _Agent:
    """An agent to which messages come between two questions."""

    def __init__(self, *arrivals: tuple[int, int, int]) -> None:
        self._arrivals = [*arrivals]
        self.received, self._count = ReceivedNumbers(), 0

    async def ask(self, command: str) -> JsonObject:
        if command == "report_received":
            return {"ranges": self.received.ranges()}
        if self._arrivals:
            producer, first, count = self._arrivals.pop(0)
            self.received.add(Role("consumer", 0, 0), producer, first, count)
            self._count += count
        return {"received": [[0, 0, self._count]], "moved": self._count}

    @property
    def is_empty(self) -> bool:
        return not self._arrivals


@pytest.mark.parametrize("may_repeat", [False, True])
def test_a_message_that_came_twice_does_not_count_for_one_that_has_not_come(may_repeat: bool) -> None:
    agents = [_Agent((0, 0, 4), (0, 2, 4), (1, 0, 2)), _Agent((0, 0, 1), (0, 3, 2), (0, 5, 3))]
    group = AgentGroup(cast("list[AgentHandle]", agents))
    asyncio.run(group.drain({0: 10}, timeout_s=1000.0, may_repeat=may_repeat))
    # After two questions 11 messages have come, of which 6 are different; after three all 10 are there.
    assert [agent.is_empty for agent in agents] == [may_repeat, may_repeat]


def test_ranges_of_received_numbers() -> None:
    received, role = ReceivedNumbers(), Role("consumer", 3, 1, 2)
    for first, count in ((0, 2), (10_000, 5), (1, 3), (10_004, 1)):
        received.add(role, 7, first, count)
    assert received.ranges() == [(1, 2, 7, 0, 4), (1, 2, 7, 10_000, 10_005)]
