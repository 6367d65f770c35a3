import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest
import uvloop

from mqlab.systems import Running, SystemFailedError, SystemSettingError
from mqlab.systems.install.download import Archive
from mqlab.systems.program import Program
from process_helpers import commands_with

from .fakes import ENDS, IGNORES_SIGTERM, LISTENS, NEVER_LISTENS, SPENDS, WITH_A_DAEMON, Fake, fake


def play(system: Program, folder: Path, what: Callable[[Running], Awaitable[None]]) -> list[psutil.Process]:
    """What was left of it afterwards."""
    seen: list[psutil.Process] = []

    async def main() -> None:
        running = await system.start(folder / "data")
        try:
            seen.extend([psutil.Process(running.pid), *psutil.Process(running.pid).children(recursive=True)])
            await what(running)
        finally:
            await running.stop()

    uvloop.run(asyncio.wait_for(main(), 240))
    return [one for one in seen if one.is_running()]


async def nothing(_: Running) -> None:
    """Up and down again."""


async def sample_for_ever(running: Running) -> None:
    while True:
        await running.sample()
        await asyncio.sleep(0.01)


class TestUp:
    def test_where_it_is_and_what_the_driver_must_know(self, tmp_path: Path) -> None:
        async def look(running: Running) -> None:
            assert 20_000 <= int(running.address.removeprefix("tcp:127.0.0.1:")) < 32_000
            assert running.options == {"user": "lab"}
            assert await running.empty()
            assert (tmp_path / "data.log").read_text() == "at your service\n"

        assert play(fake(LISTENS), tmp_path, look) == []
        assert not (tmp_path / "data").exists(), "its data goes with it"

    def test_another_driver_has_another_address(self, tmp_path: Path) -> None:
        async def look(running: Running) -> None:
            assert (running.address, dict(running.options)) == ("tcp:127.0.0.1:1", {})

        play(Fake({"driver": "mqtt"}), tmp_path, look)

    def test_what_it_uses_is_sampled(self, tmp_path: Path) -> None:
        async def look(running: Running) -> None:
            sample = await running.sample()
            assert sample["cpu_seconds"] > 0
            assert sample["rss"] > 1_000_000
            assert {"bytes_read", "bytes_written"} < set(sample)

        play(fake(SPENDS), tmp_path, look)

    def test_one_that_does_not_want_to_end_is_made_to(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("mqlab.systems.supervise.supervised_process.GRACE_SECONDS", 0.2)
        assert play(fake(IGNORES_SIGTERM), tmp_path, nothing) == []

    def test_one_that_is_stopped_is_ended_too(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("mqlab.systems.supervise.supervised_process.GRACE_SECONDS", 0.2)

        async def stop(running: Running) -> None:
            for one in psutil.Process(running.pid).children():
                one.send_signal(signal.SIGSTOP)

        assert play(fake(LISTENS), tmp_path, stop) == []

    def test_a_daemon_of_it_is_ended_too(self, tmp_path: Path) -> None:
        daemon: list[psutil.Process] = []

        async def look(_: Running) -> None:
            while not (tmp_path / "data" / "pid").exists():
                await asyncio.sleep(0.01)
            daemon.append(psutil.Process(int((tmp_path / "data" / "pid").read_text())))
            assert os.getsid(daemon[0].pid) == daemon[0].pid

        assert play(fake(WITH_A_DAEMON), tmp_path, look) == []
        assert not daemon[0].is_running()

    def test_once_it_is_gone_that_is_said_with_its_last_words(self, tmp_path: Path) -> None:
        async def kill(running: Running) -> None:
            psutil.Process(running.pid).children()[0].kill()
            with pytest.raises(SystemFailedError, match=r"fake is gone: it was killed by SIGKILL; .*at your service"):
                await sample_for_ever(running)
            assert not await running.empty()

        assert play(fake(LISTENS), tmp_path, kill) == []

    def test_without_its_keeper_it_is_ended_all_the_same(self, tmp_path: Path) -> None:
        async def kill(running: Running) -> None:
            psutil.Process(running.pid).kill()

        # Its new parent may not have waited for it yet.
        assert [one for one in play(fake(LISTENS), tmp_path, kill) if one.status() != psutil.STATUS_ZOMBIE] == []


class TestFailedStart:
    def start(self, system: Program, folder: Path) -> str:
        with pytest.raises(SystemFailedError) as caught:
            play(system, folder, nothing)
        assert not (folder / "data").exists()
        assert commands_with(str(folder), psutil.Process().children(recursive=True)) == []
        return str(caught.value)

    def test_one_that_ends(self, tmp_path: Path) -> None:
        assert self.start(fake(ENDS), tmp_path) == (
            "fake did not start: it ended with code 3; its log ends: the disk is full"
        )

    def test_the_colours_of_its_log_are_left_out(self, tmp_path: Path) -> None:
        coloured = ENDS.replace("the disk is full", "\\x1b[38;5;214mthe disk\\x1b[0m is full")
        assert self.start(fake(coloured), tmp_path).endswith("; its log ends: the disk is full")

    def test_one_that_never_answers(self, tmp_path: Path) -> None:
        said = self.start(fake(NEVER_LISTENS, start_seconds=3), tmp_path)
        assert said.startswith("fake did not answer within 3 s (")
        assert said.endswith("; its log ends: first / I am waiting for better times")

    def test_one_that_takes_every_connection_and_says_nothing(self, tmp_path: Path) -> None:
        async def answers(*_: object) -> bool:
            await asyncio.sleep(1000)
            return True

        said = self.start(fake(LISTENS, start_seconds=0.3, answers=answers), tmp_path)
        assert said.startswith("fake did not answer within 0.3 s; ")

    def test_one_that_is_no_program(self, tmp_path: Path) -> None:
        def launch(self: Fake, folder: Path, ports: Callable[[], int]) -> object:
            made = Fake.launch(self, folder, ports)
            return type(made)(["/no/such/program"], made.ports, made.addresses)

        said = self.start(fake("", launch=launch), tmp_path)
        assert said == (
            "fake did not start: it ended with code 127; its log ends: /no/such/program: No such file or directory"
        )

    def test_one_that_cannot_be_set_up(self, tmp_path: Path) -> None:
        def launch(*_: object) -> None:
            raise PermissionError(13, "Permission denied", "conf")

        assert "fake cannot be set up: [Errno 13] Permission denied" in self.start(fake("", launch=launch), tmp_path)

    def test_one_that_is_not_installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MQLAB_CACHE", str(tmp_path))
        said = self.start(fake("", parts=(Archive("org.example:thing:1:zip"),)), tmp_path)
        assert said == (f"fake is not installed (no archives/thing-1 in {tmp_path}): mqlab systems install fake")

    def test_interrupted_it_leaves_nothing(self, tmp_path: Path) -> None:
        async def main() -> None:
            starting = asyncio.ensure_future(fake(NEVER_LISTENS).start(tmp_path / "data"))
            while "better times" not in _text(tmp_path / "data.log"):
                await asyncio.sleep(0.01)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            assert commands_with("supervisor.py", psutil.Process().children()) == []

        uvloop.run(asyncio.wait_for(main(), 240))


class TestSettings:
    def test_each_has_a_default(self) -> None:
        described = Fake({"memory": "2m"}).describe()
        assert described["settings"] == {"driver": "stomp", "sync": "yes", "memory": "2m"}
        assert (described["name"], described["version"], described["stamps"]) == ("fake:memory=2m", "1.0", [])

    def test_who_does_not_sync_is_stamped(self) -> None:
        assert Fake({"sync": "no"}).describe()["stamps"] == [
            "confirms before it syncs: a power failure loses confirmed messages"
        ]

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"colour": "red"}, "fake has no setting 'colour'; it has: driver, packed, version, sync, memory"),
            ({"sync": "perhaps"}, "fake: sync: 'perhaps' is none of yes, no"),
            ({"driver": "amqp"}, "fake: driver: 'amqp' is none of stomp, mqtt"),
        ],
    )
    def test_what_makes_no_sense_is_told(self, settings: dict[str, str], words: str) -> None:
        with pytest.raises(SystemSettingError, match=words):
            Fake(settings)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
