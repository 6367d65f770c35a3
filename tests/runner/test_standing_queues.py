"""The check of a queue whose messages stay: one on another broker may begin later than the check."""

import asyncio
from typing import cast

import pytest

from mqlab.runner.broker_location import FIRST, SECOND, BrokerLocation
from mqlab.runner.standing_queues import StandingQueues
from mqlab.systems import Running, SystemFailedError

from .points import point

SENT = 10


class Filling:
    """A broker with a queue that begins with all of its messages, at the third question."""

    asked = 0

    async def depth(self, queue: str) -> int:
        self.asked += 1
        if self.asked < 3:
            raise SystemFailedError(f"there is no {queue}")
        return SENT

    async def remove(self, queue: str) -> None:
        assert self.asked == 3, queue


def check(drain: float, brokers: dict[str, Filling]) -> None:
    sent_only = point(topology="distributed", consumers=0, load="send", messages=SENT, drain=drain)
    queues = StandingQueues(1, sent_only, "native", BrokerLocation(cast(dict[str, Running], brokers), ["here"]), "")
    asyncio.run(queues.check_remaining({0: SENT}))


def test_a_queue_of_another_broker_may_begin_later() -> None:
    second = Filling()
    check(30, {FIRST: Filling(), SECOND: second})
    assert second.asked == 3


@pytest.mark.parametrize(("drain", "brokers"), [(30, (FIRST,)), (0, (FIRST, SECOND))])
def test_a_queue_that_is_missing_for_good_is_an_error(drain: float, brokers: tuple[str, ...]) -> None:
    with pytest.raises(SystemFailedError, match="there is no queue:"):
        check(drain, {name: Filling() for name in brokers})
