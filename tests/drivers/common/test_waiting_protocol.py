import asyncio

import uvloop

from mqlab.drivers.common.waiting_protocol import WaitingProtocol


def test_an_event_wakes_only_tasks_whose_condition_holds() -> None:
    async def play() -> list[bool]:
        client = WaitingProtocol()
        waiters = [client._next_event(lambda: False), client._next_event(lambda: True), client._next_event()]
        client._wake()
        return [waiter.done() for waiter in waiters]

    assert uvloop.run(play()) == [False, True, True]


def test_a_task_that_is_not_woken_waits_on() -> None:
    async def play() -> tuple[bool, bool]:
        client, ready = WaitingProtocol(), list[int]()
        waiter = client._next_event(lambda: bool(ready))
        client._wake()
        before = waiter.done()
        ready.append(1)
        client._wake()
        return before, waiter.done()

    assert uvloop.run(play()) == (False, True)


def test_a_failure_wakes_all_tasks() -> None:
    async def play() -> bool:
        client = WaitingProtocol()
        waiter = client._next_event(lambda: False)
        client.connection_lost(None)
        return waiter.done()

    assert uvloop.run(play())


def test_nothing_is_kept_of_a_task_that_was_cancelled() -> None:
    async def play() -> int:
        client = WaitingProtocol()
        waiter: asyncio.Future[None] = client._next_event(lambda: False)
        waiter.cancel()
        client._wake()
        return len(client._waiters)

    assert uvloop.run(play()) == 0
