"""Systems that are started ahead of their turn: side by side, if there is room, and none of them twice."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from mqlab.runner import running_systems
from mqlab.runner.running_systems import RunningSystems
from mqlab.systems import Running, SystemFailedError
from runner.lab import PATIENCE
from runner.test_repetition import FakeRunning, FakeSystem


@pytest.fixture(autouse=True)
def starts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    counted: Counter[str] = Counter()
    monkeypatch.setattr(FakeSystem, "starts", counted)
    monkeypatch.setattr(running_systems, "_free_bytes", lambda: 1 << 40)
    return counted


class Meeting(FakeSystem):
    """Is up only when another one starts at the same time."""

    def __init__(self, name: str, barrier: asyncio.Barrier) -> None:
        super().__init__(name)
        self._barrier = barrier

    async def start(self, folder: Path) -> Running:
        async with asyncio.timeout(PATIENCE):
            await self._barrier.wait()
        return await super().start(folder)


class Failing(FakeSystem):
    async def start(self, folder: Path) -> Running:
        await super().start(folder)
        raise SystemFailedError("no licence")


def test_two_are_started_at_the_same_time_and_used_in_their_turn(tmp_path: Path, starts: Counter[str]) -> None:
    async def work() -> None:
        up, barrier = RunningSystems(tmp_path), asyncio.Barrier(2)
        systems = [Meeting(name, barrier) for name in ("one", "two", "three", "four")]
        await up.start_ahead([*systems, *systems])
        assert [isinstance(await up.get(one), FakeRunning) for one in systems] == [True] * 4
        await up.stop_all()

    asyncio.run(work())
    names = ("one", "two", "three", "four")
    assert starts == Counter({**dict.fromkeys(names, 1), **{f"{name} stopped": 1 for name in names}})


def test_one_alone_waits_for_its_turn(tmp_path: Path, starts: Counter[str]) -> None:
    asyncio.run(RunningSystems(tmp_path).start_ahead([FakeSystem("one")]))
    assert not starts


@pytest.mark.parametrize(("most", "memory"), [(3, 1 << 40), (12, 3 << 30)])
def test_no_more_than_there_is_room_for(
    tmp_path: Path, starts: Counter[str], monkeypatch: pytest.MonkeyPatch, most: int, memory: int
) -> None:
    monkeypatch.setattr(running_systems, "MAX_RUNNING", most)
    monkeypatch.setattr(running_systems, "_free_bytes", lambda: memory)
    asyncio.run(RunningSystems(tmp_path).start_ahead(FakeSystem(name) for name in ("one", "two", "three", "four")))
    assert sum(starts.values()) == (2 if most == 3 else 0)


def test_one_that_fails_says_why_in_its_turn(tmp_path: Path, starts: Counter[str]) -> None:
    async def work() -> None:
        up, failing = RunningSystems(tmp_path), Failing("one")
        await up.start_ahead([failing, FakeSystem("two")])
        with pytest.raises(SystemFailedError, match="no licence"):
            await up.get(failing)
        assert starts == {"one": 1, "two": 1}
        with pytest.raises(SystemFailedError, match="no licence"):
            await up.get(failing)

    asyncio.run(work())
    assert starts == {"one": 2, "two": 1}, "when it is wanted again, it is tried again"
