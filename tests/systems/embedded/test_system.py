import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest
import uvloop

from mqlab.broker.settings import POLICY_FIELDS
from mqlab.client import aio
from mqlab.events.schema import TABLES
from mqlab.systems import Running, SystemFailedError, SystemSettingError, system
from systems.hanging_system import check_hanging
from systems.real_system import Real, real

up = real("embedded")


class TestNames:
    @pytest.mark.parametrize(
        ("text", "label", "settings"),
        [
            ("embedded", "embedded", {}),
            ("embedded:", "embedded", {}),
            ("embedded:sync=off", "embedded:sync=off", {"sync": "off"}),
            ("embedded: sync = off , disk_marks=250", "embedded:sync=off,disk_marks=250",
             {"sync": "off", "disk_marks": "250"}),
        ],
    )  # fmt: skip
    def test_a_system_is_named_with_what_was_chosen(self, text: str, label: str, settings: dict[str, str]) -> None:
        found = system(text)
        assert (found.label, found.settings) == (label, settings)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("rabbit", ["no system 'rabbit'", "embedded"]),
            ("", ["no system ''", "embedded"]),
            ("Embedded", ["no system 'Embedded'"]),
            ("embedded:sync", ["NAME:setting=value"]),
            ("embedded:snyc=off", ["no setting 'snyc'", "sync", "disk_marks", "queue_limit"]),
            ("embedded:=3", ["no setting ''"]),
            ("embedded:sync=perhaps", ["'perhaps'", "on", "off"]),
            ("embedded:disk_marks=many", ["disk_marks", "'many'"]),
            ("embedded:disk_marks=-1", ["disk_marks", "'-1'"]),
            ("embedded:queue_limit=0", ["queue_limit", "0"]),
            ("embedded:queue_limit=1.5", ["queue_limit", "'1.5'"]),
            ("embedded:sync=off,sync=on", ["sync", "twice"]),
            ("embedded:save_extent=8MiBs", ["save_extent", "'8MiBs'"]),
            ("embedded:retrieval=guess", ["retrieval", "'guess'", "indexed, scan"]),
            ("embedded:preallocate=perhaps", ["preallocate", "'perhaps'"]),
        ],
    )
    def test_what_is_not_known_is_one_sentence(self, text: str, words: list[str]) -> None:
        with pytest.raises(SystemSettingError) as caught:
            system(text)
        for word in words:
            assert word in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        "name", ["data", "listen", "open_to_network", "users", "tls_key", "metrics", "policies", "web_origins"]
    )
    def test_what_the_lab_decides_is_not_offered(self, name: str) -> None:
        with pytest.raises(SystemSettingError, match=f"no setting '{name}'"):
            system(f"embedded:{name}=1")


class TestDescription:
    @pytest.mark.parametrize(("text", "warmed_up"), [("embedded", False), ("embedded:driver=jms", True)])
    def test_a_client_library_in_java_is_warmed_up(self, text: str, warmed_up: bool) -> None:
        assert system(text).compiles is warmed_up

    def test_all_settings_are_told_and_not_only_the_chosen(self) -> None:
        found = system("embedded:queue_limit=1000").describe()
        assert found["name"] == "embedded:queue_limit=1000"
        assert found["version"].startswith("mqlab ")
        assert found["stamps"] == []
        assert found["settings"]["queue_limit"] == 1000
        assert found["settings"]["sync"] == "on"
        assert not {"data", "listen"} & found["settings"].keys()

    def test_every_setting_of_a_destination_can_be_chosen(self) -> None:
        text = "embedded:save_extent=2MiB,retrieval=scan,expired=queue:late,preallocate=no"
        shown = system(text).describe()["settings"]
        assert set(POLICY_FIELDS) < shown.keys()
        assert (shown["save_extent"], shown["retrieval"]) == (2 * 1024 * 1024, "scan")
        assert (shown["expired"], shown["preallocate"], shown["log_length"]) == ("queue:late", False, 512 * 1024 * 1024)
        json.dumps(shown)

    def test_what_makes_a_figure_special_is_stamped(self) -> None:
        assert system("embedded").describe()["stamps"] == []
        (off,) = system("embedded:sync=off").describe()["stamps"]
        assert "power failure" in off
        (marks,) = system("embedded:disk_marks=250").describe()["stamps"]
        assert "250" in marks
        assert len(system("embedded:sync=off,disk_marks=250").describe()["stamps"]) == 2
        (dropping,) = system("embedded:when_full=drop-oldest").describe()["stamps"]
        assert "loses messages" in dropping
        (scanning,) = system("embedded:retrieval=scan").describe()["stamps"]
        assert "depth" in scanning


Play = Callable[[Running, psutil.Process], Awaitable[None]]


def with_one(tmp_path: Path, play: Play, text: str = "embedded") -> None:
    """A system that is up, with its process; however the play ends, the process is gone."""

    async def main() -> None:
        before = set(psutil.Process().children())
        async with asyncio.timeout(240):
            running = await system(text).start(tmp_path / "data")
            (process,) = set(psutil.Process().children()) - before
            try:
                await play(running, process)
            finally:
                await running.stop()
        assert not process.is_running()

    uvloop.run(main())


async def sample_for_ever(running: Running) -> None:
    while True:
        await running.sample()


def test_it_starts_and_answers_and_stops(tmp_path: Path) -> None:
    async def play(running: Running, process: psutil.Process) -> None:
        assert process.is_running()
        look = await running.sample()
        assert {"run", "source", "t", *look} == set(TABLES["samples"].names)
        assert (look["depth"], look["blocked"], look["syncs"] >= 0) == (0, 0, True)
        assert 0 < look["cpu_seconds"] < 60
        assert look["rss"] == pytest.approx(process.memory_info().rss, rel=0.5)
        assert await running.empty()

    with_one(tmp_path, play)


def test_it_knows_whether_it_is_empty(tmp_path: Path) -> None:
    async def play(running: Running, _: psutil.Process) -> None:
        async with await aio.connect(running.address) as connection:
            session = await connection.session()
            producer = await session.producer("queue:left-over")
            await producer.send(b"x", persistent=True)
            assert not await running.empty()
            look = await running.sample()
            assert (look["depth"], look["syncs"] > 0) == (1, True)
            consumer = await session.consumer("queue:left-over")
            await consumer.receive()
            await consumer.close()
        assert await running.empty()

    with_one(tmp_path, play)


def test_its_settings_reach_it(tmp_path: Path) -> None:
    async def play(_: Running, process: psutil.Process) -> None:
        assert {"--sync=off", "--queue-limit=4096", "--disk-marks=10"} <= set(process.cmdline())

    with_one(tmp_path, play, "embedded:sync=off,queue_limit=4096,disk_marks=10")


def test_each_of_them_is_one_that_it_knows(tmp_path: Path) -> None:
    async def play(_: Running, process: psutil.Process) -> None:
        assert {"--no-preallocate", "--save-extent=65536", "--dead-letters=none"} <= set(process.cmdline())

    stanzas = tmp_path / "stanzas"
    stanzas.write_text("ApplicationTrace:\n  ApplName=*\n  Trace=OFF\n")
    chosen = {
        "group_delay": "1", "memory_limit": "64MiB", "producer_window": "64KiB", "segment_size": "1MiB",
        "busy_wait": "1", "preallocate": "no", "log_length": "4MiB", "file_trace": str(tmp_path / "trace"),
        "message_limit": "1000", "max_message_size": "1MiB",
        "when_full": "refuse", "save_extent": "64KiB", "retrieval": "scan", "redelivery_limit": "0",
        "dead_letters": "none", "expired": "queue:e", "duplicate_window": "10", "sync": "on", "disk_marks": "0",
        "queue_limit": "1MB", "monitoring": "high", "trace": "low", "trace_file": str(stanzas),
        "api_trace": str(tmp_path / "calls"), "api_trace_internal": "yes", "read_out": "yes",
    }  # fmt: skip
    # `traced` writes the stanzas itself.
    assert {*chosen, "traced", "driver"} == set(system("embedded").describe()["settings"])
    with_one(tmp_path, play, "embedded:" + ",".join(f"{key}={value}" for key, value in chosen.items()))


def test_settings_of_the_environment_do_not_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would change what is measured, and no record would say so."""
    monkeypatch.setenv("MQLAB_BROKER_SYNC", "off")
    monkeypatch.setenv("MQLAB_BROKER_QUEUE_LIMIT", "nonsense")

    async def play(_: Running, process: psutil.Process) -> None:
        assert not [key for key in process.environ() if key.startswith("MQLAB_BROKER_")]

    with_one(tmp_path, play)


def test_once_it_is_gone_that_is_said(tmp_path: Path) -> None:
    async def play(running: Running, process: psutil.Process) -> None:
        process.kill()
        # The connection may know it a moment later than we do.
        with pytest.raises(SystemFailedError, match="embedded broker is gone"):
            await sample_for_ever(running)
        assert not await running.empty()

    with_one(tmp_path, play)


def test_ctrl_c_in_the_terminal_does_not_reach_it(tmp_path: Path) -> None:
    """The conductor decides when it ends: after the agents have drained what is in it."""

    async def play(running: Running, process: psutil.Process) -> None:
        assert os.getpgid(process.pid) != os.getpgid(0)
        assert await running.empty()

    with_one(tmp_path, play)


def test_one_that_does_not_end_by_itself_is_made_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqlab.systems.embedded.process._STOP_SECONDS", 0.3)

    async def play(_: Running, process: psutil.Process) -> None:
        process.send_signal(signal.SIGSTOP)

    with_one(tmp_path, play)


def test_one_that_hangs_is_not_waited_for_without_an_end(up: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqlab.drivers.native.driver.ANSWER_TIMEOUT_S", 1.0)
    check_hanging(up, monkeypatch)
