"""A system that is no good breaks its own runs, with the reason; those of the others go on, and no process is left."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import uvloop

from mqlab.events.folder import RunFolder
from mqlab.runner import run as running_one
from mqlab.runner.agents import channel, group, handle
from mqlab.study import Point
from mqlab.systems import System, SystemFailedError, system
from runner import lab
from runner.lab import Once, check_delivery, rows
from runner.points import LONG, point
from runner.programs import ENDS, SAYS_NOTHING, TURNS_AWAY, Served, programs_running, served
from runner.proxy import Proxy

TWICE = point("A", size=1024, batch=64, drain=1, least=2, most=2, measure=LONG)


def conducted(
    tmp_path: Path, points: list[Point], systems: list[str | System], watch: lab.Watch = lab.ignore
) -> RunFolder:
    """By one agent, which is enough here; nothing of a program is left either."""
    try:
        return lab.conducted(tmp_path, points, systems=systems, agents=1, watch=watch)
    finally:
        assert programs_running() == []


def statuses(folder: RunFolder, name: str) -> list[str]:
    return [run["status"] for run in rows(folder, "runs", system=name)]


def reasons(folder: RunFolder, name: str) -> list[str]:
    return [run["reason"] for run in rows(folder, "runs", system=name) if run["status"] != "complete"]


def to_the_broker(number: int) -> Callable[[], None]:
    return lambda: programs_running()[0].send_signal(number)


class TestInMidRun:
    def test_it_dies(self, tmp_path: Path) -> None:
        kill = Once("measure", to_the_broker(signal.SIGKILL))
        folder = conducted(tmp_path, [TWICE], [served(), "embedded"], watch=kill)
        assert statuses(folder, "served") == ["incomplete", "complete"]
        (why,) = reasons(folder, "served")
        assert "served is gone: it was killed by SIGKILL; " in why
        assert statuses(folder, "embedded") == ["complete", "complete"]
        last = rows(folder, "runs", system="served")[-1]["run"]
        assert check_delivery(folder, last, 1024) > 0
        assert folder.meta()["absences"] == []

    def test_it_hangs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for module, name in (
            (group, "_FINISH_SECONDS"), (running_one, "_GRACE_SECONDS"), (channel, "_STOP_SECONDS"),
        ):  # fmt: skip
            assert hasattr(module, name)
            monkeypatch.setattr(module, name, 1.0)
        monkeypatch.setattr("mqlab.systems.supervise.supervised_process.GRACE_SECONDS", 0.5)
        freeze = Once("warm-up", to_the_broker(signal.SIGSTOP))
        folder = conducted(tmp_path, [TWICE], [served()], watch=freeze)
        assert statuses(folder, "served") == ["incomplete", "complete"]
        assert "the system hangs" in reasons(folder, "served")[0]

    def test_its_disk_is_full(self, tmp_path: Path) -> None:
        chosen = point("A", size=100_000, batch=1, persistent=True, send="confirmed", drain=1, measure=1)
        folder = conducted(tmp_path, [chosen], [served(file_size="2000")])
        assert statuses(folder, "served") == ["incomplete"]
        assert "the broker cannot write persistent messages now" in reasons(folder, "served")[0], "its own words"

    def test_it_drops_the_connections_of_a_broker_that_somebody_else_runs(self, tmp_path: Path) -> None:
        async def play() -> None:
            running = await served().start(tmp_path / "broker")
            try:
                with Proxy(int(running.address.rpartition(":")[2])) as proxy:
                    await asyncio.to_thread(self.cut_off, tmp_path / "runs", proxy)
            finally:
                await running.stop()

        (tmp_path / "runs").mkdir()
        uvloop.run(asyncio.wait_for(play(), 240))

    def cut_off(self, parent: Path, proxy: Proxy) -> None:
        named = f"external:driver=native,address=tcp:127.0.0.1:{proxy.port}"
        folder = lab.conducted(parent, [TWICE], systems=[named], agents=1, watch=Once("measure", proxy.cut))
        assert statuses(folder, named) == ["incomplete", "complete"]
        assert "connection" in reasons(folder, named)[0]
        assert check_delivery(folder, 2, 1024) > 0
        sources = {row["source"] for row in rows(folder, "samples")}
        assert "broker" not in sources, "nothing is made up about a system that is elsewhere"
        (entry,) = folder.meta()["systems"]
        assert entry["durability"]["syncs"] == "unknown"


class TestFromTheStart:
    def test_it_ends_at_once_and_is_given_up(self, tmp_path: Path) -> None:
        points = [TWICE, point("B", least=3, most=3)]
        bad = served("bad", text=ENDS)
        seen: list[tuple[int, int]] = []
        folder = conducted(
            tmp_path, points, [bad, "embedded"], watch=lambda now: seen.append((now.runs_done, now.runs_expected))
        )
        assert statuses(folder, "embedded") == ["complete"] * 5
        assert statuses(folder, "bad") == ["incomplete"] * 2
        why = "bad did not start: it ended with code 1; its log ends: no licence, no service"
        assert reasons(folder, "bad") == [why] * 2
        assert folder.meta()["absences"] == [
            {"system": "bad", "scenario": "B", "point": "",
             "reason": f"given up after 2 starts that failed: {why}"}
        ]  # fmt: skip
        assert type(bad).starts == 2
        assert seen[-1] == (6, 7), "nobody waits for runs that will not be"
        assert folder.meta()["status"] == "complete"

    def test_it_never_answers(self, tmp_path: Path) -> None:
        mute = served("mute", text="import time; time.sleep(100)", start_seconds=0.5)
        with pytest.raises(SystemFailedError, match=r"mute did not answer within 0\.5 s"):
            conducted(tmp_path, [point()], [mute])

    def test_it_lets_nobody_in(self, tmp_path: Path) -> None:
        folder = conducted(tmp_path, [point()], [served("shut", text=TURNS_AWAY)])
        assert statuses(folder, "shut") == ["incomplete"]
        assert "the connection to the broker is lost" in reasons(folder, "shut")[0]

    def test_it_lets_everybody_in_and_says_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(handle, "ANSWER_SECONDS", 8.0)
        folder = conducted(tmp_path, [point()], [served("mute", text=SAYS_NOTHING)])
        assert statuses(folder, "mute") == ["incomplete"]
        assert "the system hangs: agent 1 did not answer 'prepare'" in reasons(folder, "mute")[0]

    def test_alone_that_is_all_there_is_to_say(self, tmp_path: Path) -> None:
        with pytest.raises(SystemFailedError, match=r"bad did not start: .* no licence, no service"):
            conducted(tmp_path, [TWICE], [served("bad", text=ENDS)])


LACKS = {"topics": "it knows queues only", "transactions": "it has none"}


class TestWhatItLacks:
    def test_such_points_are_left_out_with_the_reason(self, tmp_path: Path) -> None:
        points = [point("A"), point("T", domain="topic"), point("X", domain="topic", transaction=10)]
        seen: list[int] = []
        folder = conducted(
            tmp_path, points, [served("plain", lacks=LACKS), "embedded"],
            watch=lambda now: seen.append(now.runs_expected),
        )  # fmt: skip
        found = [(run["system"], run["scenario"], run["status"]) for run in rows(folder, "runs")]
        assert found == [
            ("plain", "A", "complete"), ("embedded", "A", "complete"), ("embedded", "T", "complete"),
            ("embedded", "X", "complete"),
        ]  # fmt: skip
        assert set(seen) == {4}
        topics = "no topics: it knows queues only"
        assert folder.meta()["absences"] == [
            {"system": "plain", "scenario": "T", "point": "", "reason": topics},
            {"system": "plain", "scenario": "X", "point": "", "reason": f"{topics}; no transactions: it has none"},
        ]

    def test_settings_that_only_one_system_has(self, tmp_path: Path) -> None:
        points = [point(name="off", settings={"sync": "off"})]
        folder = conducted(tmp_path, points, [served("plain"), "embedded"])
        assert statuses(folder, "plain") == []
        assert folder.meta()["absences"][0]["reason"] == "plain has no setting 'sync'; it has: driver, packed, version"

    def test_if_nobody_can_play_anything_nothing_is_started(self, tmp_path: Path) -> None:
        plain = served("plain", lacks=LACKS)
        with pytest.raises(SystemFailedError, match="nothing can be run: plain: no topics: it knows queues only"):
            conducted(tmp_path, [point(domain="topic")], [plain])
        assert type(plain).starts == 0

    @pytest.mark.parametrize(
        ("driver", "words"),
        [("nonsense", "plain: there is no driver 'nonsense'; there are: "),
         ("kafka", "plain: the driver kafka needs the library nowhere: pip install 'mqlab\\[systems\\]'")],
    )  # fmt: skip
    def test_a_driver_that_is_not_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str, words: str
    ) -> None:
        monkeypatch.setattr("mqlab.runner.capability.DRIVERS", _Drivers())
        with pytest.raises(SystemFailedError, match=words):
            conducted(tmp_path, [point()], [served("plain", drivers=(driver,))])


class _Drivers(dict[str, type]):
    def __missing__(self, name: str) -> type:
        if name == "kafka":
            raise ModuleNotFoundError("No module named 'nowhere'", name="nowhere")
        raise KeyError(name)


def test_it_is_a_program_like_any_other(tmp_path: Path) -> None:
    """So that the tests above tell something."""
    before = _children()
    folder = conducted(tmp_path, [point(persistent=True, send="confirmed")], [Served({})])
    assert statuses(folder, "served") == ["complete"]
    samples = rows(folder, "samples", source="broker")
    assert samples[-1]["cpu_seconds"] >= samples[0]["cpu_seconds"] > 0
    assert samples[-1]["bytes_written"] > 0
    assert folder.meta()["systems"][0]["durability"]["syncs"] == "before confirming"
    assert system("embedded").durability().syncs == "before confirming"
    assert _children() <= before


def _children() -> set[psutil.Process]:
    """Other tests may have some that live as long as all tests do."""
    return {one for one in psutil.Process().children() if one.status() != psutil.STATUS_ZOMBIE}
