"""What only a lab wants of the embedded broker: depths, traces, and one inside a process."""

import asyncio
import os
from pathlib import Path
from typing import get_type_hints

import psutil
import pyarrow as pa
import pytest
import uvloop

from mqlab.broker.policy import Policy
from mqlab.broker.server.trace.stanzas import read_stanzas
from mqlab.broker.settings import Settings
from mqlab.client import aio
from mqlab.events.schema import TABLES
from mqlab.systems import Running, SystemFailedError, SystemSettingError, system
from mqlab.systems.embedded import settings as embedded_settings
from mqlab.systems.embedded.settings import FILE_SETTINGS, EmbeddedSettings
from mqlab.systems.embedded.system import Embedded

from .embedded.test_system import with_one


class TestSettings:
    def test_a_point_may_change_some(self) -> None:
        named = system("embedded:sync=off,trace=low")
        changed = named.with_settings({"trace": "high", "traced": "5"})
        assert changed.settings == {"sync": "off", "trace": "high", "traced": "5"}
        # In every table it is the system that was named; what is up for another point is not the same.
        assert (changed.label, changed.key) == (named.label, "embedded:sync=off,trace=high,traced=5")
        assert named.with_settings({}) is named

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"traced": "many"}, "traced: 'many'"),
            ({"traced": "-1"}, "traced: '-1'"),
            ({"traced": "1", "trace_file": "here"}, "without trace_file"),
            ({"read_out": "1"}, "neither yes nor no"),
            ({"remotes": "a=queue:a@B"}, "no setting 'remotes'"),
            ({"channels": "B=tcp:127.0.0.1:1"}, "no setting 'channels'"),
        ],
    )
    def test_what_makes_no_sense_is_told(self, settings: dict[str, str], words: str) -> None:
        with pytest.raises(SystemSettingError, match=words):
            system("embedded").with_settings(settings)

    def test_the_chosen_pairs_are_traced_and_nobody_else(self, tmp_path: Path) -> None:
        values = EmbeddedSettings.parse({"trace": "medium", "traced": "2"}).with_files(tmp_path / "data")
        assert values["trace"] == "medium"
        assert [(one.name, one.level) for one in read_stanzas(Path(str(values["trace_file"])))] == [
            ("mqlab-lab", "off"), ("Requester0", "medium"), ("Responder0", "medium"), ("Requester1", "medium"),
            ("Responder1", "medium"), ("*", "off"),
        ]  # fmt: skip

    def test_without_a_number_all_are_traced_but_the_lab(self, tmp_path: Path) -> None:
        values = EmbeddedSettings.parse({"trace": "low"}).with_files(tmp_path / "data")
        assert [(one.name, one.level) for one in read_stanzas(Path(str(values["trace_file"])))] == [
            ("mqlab-lab", "off"), ("*", "low"),
        ]  # fmt: skip

    def test_who_traces_nothing_has_no_stanzas(self, tmp_path: Path) -> None:
        assert EmbeddedSettings.parse({"traced": "3", "read_out": "yes"}).with_files(tmp_path / "data") == {}

    def test_api_trace_chooses_a_file_unless_it_has_one(self, tmp_path: Path) -> None:
        data = tmp_path / "data"
        assert EmbeddedSettings.parse({"api_trace": "yes"}).with_files(data) == {"api_trace": tmp_path / "data.calls"}
        assert EmbeddedSettings.parse({"api_trace": "no"}).with_files(data) == {}
        assert EmbeddedSettings.parse({"api_trace": "/somewhere"}).with_files(data) == {"api_trace": Path("/somewhere")}


async def send(running: Running, queue: str, messages: int, application: str = "somebody") -> None:
    async with await aio.connect(running.address, application=application) as connection:
        producer = await (await connection.session()).producer(queue)
        for _ in range(messages):
            await producer.send(b"x", persistent=True)


def test_the_depth_of_a_queue_and_its_end(tmp_path: Path) -> None:
    async def play(running: Running, _: psutil.Process) -> None:
        await send(running, "queue:q", 7)
        assert await running.depth("queue:q") == 7
        assert not await running.empty()
        await running.remove("queue:q")
        assert await running.empty()
        for again in (running.depth("queue:q"), running.remove("queue:q"), running.unlink("B")):
            with pytest.raises(SystemFailedError):
                await again
        assert await running.operations() is None

    with_one(tmp_path, play)


def test_a_queue_is_removed_when_its_consumers_are_gone(tmp_path: Path) -> None:
    async def play(running: Running, _: psutil.Process) -> None:
        await send(running, "queue:q", 1)
        connection = await aio.connect(running.address)
        await (await connection.session()).consumer("queue:q")
        removing = asyncio.ensure_future(running.remove("queue:q"))
        await asyncio.sleep(0.05)
        assert not removing.done()
        await connection.drop()
        await removing
        assert await running.empty()

    with_one(tmp_path, play)


def applications(found: pa.Table | None) -> set[str]:
    assert found is not None
    return set(found["application"].to_pylist())


@pytest.mark.parametrize("more", ["", ",read_out=yes"])
def test_what_was_traced_is_read_once(tmp_path: Path, more: str) -> None:
    async def play(running: Running, _: psutil.Process) -> None:
        assert applications(await running.operations()) == set()
        await send(running, "queue:q", 5, "first")
        found = await running.operations()
        assert applications(found) == {"first"}
        assert found is not None
        assert set(TABLES["operations"].names) - {"run"} < set(found.column_names)
        await running.remove("queue:q")
        assert await running.empty(), "and nothing of it is left"
        await send(running, "queue:q", 1, "second")
        assert "second" in applications(await running.operations())

    with_one(tmp_path, play, f"embedded:trace=low{more}")


def test_where_nobody_is_traced_it_is_empty_all_the_same(tmp_path: Path) -> None:
    async def play(running: Running, _: psutil.Process) -> None:
        await send(running, "queue:q", 1)
        assert applications(await running.operations()) == set()
        await running.remove("queue:q")
        assert await running.empty()

    with_one(tmp_path, play, "embedded:trace=high,traced=0")


def test_every_call_is_in_the_file_that_was_chosen(tmp_path: Path) -> None:
    async def play(running: Running, _: psutil.Process) -> None:
        await send(running, "queue:q", 3, "caller")

    with_one(tmp_path, play, "embedded:api_trace=yes")
    assert "caller" in (tmp_path / "data.calls").read_text()


class TestInside:
    def test_a_process_may_have_one_inside(self, tmp_path: Path) -> None:
        async def main() -> None:
            under_test = system("embedded:trace=low,queue_limit=1000")
            hosted = await under_test.host(tmp_path / "data", "A")
            running = await under_test.attach(hosted.address, os.getpid(), tmp_path / "data")
            async with await aio.connect("bindings:A", application="within") as connection:
                producer = await (await connection.session()).producer("queue:q@A")
                await producer.send(b"x", persistent=True)
            assert await running.depth("queue:q") == 1
            look = await running.sample()
            assert (look["depth"] >= 1, look["syncs"] > 0) == (True, True)
            assert look["rss"] == pytest.approx(psutil.Process().memory_info().rss, rel=0.5)
            assert applications(await running.operations()) == {"within"}
            await running.stop()
            await hosted.close()
            with pytest.raises(OSError, match="no broker"):
                await aio.connect("bindings:A")

        uvloop.run(asyncio.wait_for(main(), 240))

    def test_two_are_linked(self, tmp_path: Path) -> None:
        async def main() -> None:
            under_test = system("embedded")
            hosted = [await under_test.host(tmp_path / name, name) for name in ("A", "B")]
            near, far = [
                await under_test.attach(one.address, os.getpid(), tmp_path / name)
                for one, name in zip(hosted, ("A", "B"), strict=True)
            ]
            await near.link("B", far.address)
            await send(near, "queue:q@B", 3)
            async with await aio.connect("bindings:B") as connection:
                consumer = await (await connection.session()).consumer("queue:q")
                for _ in range(3):
                    await consumer.receive(20)
            await near.unlink("B")
            for running in (near, far):
                await running.stop()
            for one in hosted:
                await one.close()

        uvloop.run(asyncio.wait_for(main(), 240))

    def test_one_that_cannot_start_says_why(self, tmp_path: Path) -> None:
        async def main() -> None:
            broken = system("embedded:file_trace=/no/such/folder/trace")
            with pytest.raises(SystemFailedError, match="/no/such/folder"):
                await broken.host(tmp_path / "data", "A")
            with pytest.raises(SystemFailedError, match="does not answer"):
                await broken.attach("tcp:127.0.0.1:1", os.getpid(), tmp_path / "data")

        uvloop.run(asyncio.wait_for(main(), 240))


def test_every_setting_that_is_a_path_is_known_as_a_file() -> None:
    """A study may name such a file below its own folder or the run's only (`mqlab.runner.study_files`)."""
    hints = {**get_type_hints(Settings), **get_type_hints(Policy)}
    paths = {name for name in embedded_settings._BROKER_SETTINGS if "Path" in str(hints[name])}
    assert paths == {*FILE_SETTINGS}
    assert Embedded.file_settings == FILE_SETTINGS
