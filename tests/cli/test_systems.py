"""`mqlab systems`, with a program of the test among the systems."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from mqlab.cli.systems import start as starting
from mqlab.cli.systems.started import data_folder
from mqlab.json_values import JsonObject
from mqlab.study.features import FEATURES
from mqlab.systems import SYSTEMS, System
from mqlab.systems.install.download import Archive
from systems.fakes import ENDS, Fake

from .command import PROGRAM, document, environment, here, mqlab


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQLAB_CACHE", str(tmp_path / "cache"))


class Absent(Fake):
    """Cannot be had."""

    name = "absent"
    parts = (Archive("org.example:nowhere:1:zip"),)
    drivers = ("native",)
    lacks = {"topics": "it has none"}  # noqa: RUF012 - never changed


@pytest.fixture
def _with_fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SYSTEMS, "absent", Absent)
    monkeypatch.setitem(SYSTEMS, "broken", _broken)


def _broken(_: dict[str, str]) -> None:
    raise ValueError("of another package")


def listed(*arguments: str) -> dict[str, JsonObject]:
    result = here("systems", *arguments, "--json")
    assert result.exit_code == 0
    return {one["name"]: one for one in document(result.stdout)["systems"]}


class TestList:
    def test_as_json(self) -> None:
        found = listed()
        assert set(found) >= {"embedded", "external"}
        embedded = found["embedded"]
        assert embedded["version"].startswith("mqlab ")
        assert (embedded["settings"]["sync"], embedded["settings"]["disk_marks"]) == ("on", 0)
        assert (embedded["stamps"], embedded["missing"], embedded["drivers"][0]) == ([], "", "native")
        assert found["external"]["missing"].startswith("say which one")

    @pytest.mark.usefixtures("_with_fakes")
    def test_for_people(self) -> None:
        result = here("systems")
        assert result.exit_code == 0
        # The first line of each system: a long reason goes on below it, and may name the system again.
        lines = {line.split()[0]: line for line in reversed(result.stdout.splitlines()) if line.strip()}
        assert lines["embedded"].rstrip().endswith("yes")
        assert lines["absent"].split()[:7] == ["absent", "a", "program", "of", "a", "test", "1.0"]
        assert "cannot be loaded: ValueError: of another package" in lines["broken"]
        assert "\x1b" not in result.stdout

    @pytest.mark.usefixtures("_with_fakes")
    def test_what_is_missing_is_named_with_the_way_out(self, tmp_path: Path) -> None:
        assert listed()["absent"]["missing"] == (
            f"absent is not installed (no archives/nowhere-1 in {tmp_path / 'cache'}): mqlab systems install absent"
        )

    def test_an_option_before_a_command_is_not_lost(self) -> None:
        result = here("systems", "--json", "status")
        assert (result.exit_code, "write --json after `status`" in result.stderr) == (2, True)


class TestShow:
    @pytest.mark.usefixtures("_with_fakes")
    def test_each_feature_or_why_not(self) -> None:
        found = document(here("systems", "show", "absent", "--json").stdout)
        lacking = {feature: why for feature, why in found["features"].items() if why}
        assert [*found["features"]] == [*FEATURES]
        assert lacking == {
            "topics": "it has none", "bindings": "it is a program of its own",
            "distributed": "the lab joins brokers that run inside its agents only",
        }  # fmt: skip
        assert found["durability"]["syncs"] == "before confirming"
        assert found["settings"] == {"driver": "native", "sync": "yes", "memory": "1m"}
        assert found["choices"] == {"driver": ["native"], "sync": ["yes", "no"]}

    def test_for_people(self) -> None:
        result = here("systems", "show", "embedded:sync=off")
        assert result.exit_code == 0
        words = " ".join(result.stdout.split())
        assert "selectors yes" in words
        assert "syncs never" in words
        assert "sync off: a power failure loses confirmed messages" in words

    @pytest.mark.parametrize(
        ("name", "code", "words"),
        [
            ("nonsense", 2, "there is no system 'nonsense'"),
            ("embedded:colour=red", 2, "has no setting 'colour'"),
            ("external:driver=stomp,password=s3cret", 2, "there is no address"),
            ("broken", 7, "broken cannot be loaded: of another package"),
            ("external:driver=nonsense,address=tcp:h:1", 7, "there is no driver 'nonsense'"),
        ],
    )
    @pytest.mark.usefixtures("_with_fakes")
    def test_what_is_not_there(self, name: str, code: int, words: str) -> None:
        result = here("systems", "show", name)
        assert result.exit_code == code
        assert words in " ".join(result.stderr.split())
        assert "s3cret" not in result.stderr


class TestInstall:
    def test_what_is_there_is_left_alone(self) -> None:
        result = here("systems", "install", "embedded", "--json")
        assert (result.exit_code, document(result.stdout)) == (
            0, {"systems": [{"name": "embedded", "error": ""}]}
        )  # fmt: skip

    @pytest.mark.usefixtures("_with_fakes")
    def test_one_that_fails_stops_no_other(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        result = here("systems", "install", "absent", "embedded", "--json")
        assert result.exit_code == 7
        first, second = document(result.stdout)["systems"]
        assert "there is no apt-get" in first["error"]
        assert second == {"name": "embedded", "error": ""}
        assert "not installed: absent" in result.stderr

    @pytest.mark.usefixtures("_with_fakes")
    def test_what_it_does_to_the_machine_is_said_before_it_does_it(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        said = here("systems", "install", "absent").stderr.split("\n")
        assert said[0] == "apt-get changes the machine for all users: it installs maven"
        assert said[1] == f"everything else goes into {tmp_path / 'cache'}"

    @pytest.mark.usefixtures("_with_fakes")
    def test_a_dry_run_does_nothing(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        result = here("systems", "install", "absent", "embedded", "--dry-run")
        assert (result.exit_code, result.stdout) == (0, "")
        said = " ".join(result.stderr.split())
        assert "embedded: already installed" in said
        assert "it installs maven" in said
        assert not (tmp_path / "cache").exists()

    @pytest.mark.parametrize("arguments", [[], ["--all", "embedded"]])
    def test_which_ones_must_be_said(self, arguments: list[str]) -> None:
        assert here("systems", "install", *arguments).exit_code == 2


class TestRun:
    @pytest.mark.usefixtures("_with_fakes")
    def test_what_is_not_there_is_told_before_anything_runs(self, tmp_path: Path) -> None:
        result = here("run", "jms-four-brokers", "--system", "absent", "--runs", tmp_path / "runs")
        assert result.exit_code == 7
        assert "mqlab systems install absent" in " ".join(result.stderr.split())
        assert not (tmp_path / "runs").exists()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


Start = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Start]:
    """`mqlab systems start` in a process of its own, with the answer that it prints when the system is up."""
    up: list[subprocess.Popen[str]] = []

    def start(name: str) -> subprocess.Popen[str]:
        up.append(subprocess.Popen(
            [*PROGRAM, "systems", "start", name, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(MQLAB_CACHE=str(tmp_path / "cache")),
        ))  # fmt: skip
        return up[-1]

    yield start
    for one in up:
        one.kill()
        one.communicate()


def answer(process: subprocess.Popen[str]) -> JsonObject:
    assert process.stdout is not None
    text = ""
    while not text.endswith("\n}\n"):
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        text += line
    found: JsonObject = json.loads(text)
    return found


def started_now() -> list[JsonObject]:
    found: list[JsonObject] = document(here("systems", "status", "--json").stdout)["started"]
    return found


class TestStart:
    def test_it_is_up_until_it_is_interrupted(self, tmp_path: Path, started: Start) -> None:
        process = started("embedded:sync=off")
        said = answer(process)
        assert (said["system"], said["pid"]) == ("embedded:sync=off", process.pid)
        assert started_now() == [said]
        process.send_signal(signal.SIGINT)
        assert process.wait(240) == 0
        assert started_now() == []
        assert [*(tmp_path / "cache" / "started").iterdir()] == [], "nothing is left of it"

    def test_detached_it_stays_until_it_is_stopped(self, tmp_path: Path) -> None:
        result = mqlab("systems", "start", "embedded", "--detach", "--json", MQLAB_CACHE=str(tmp_path / "cache"))
        assert result.returncode == 0, result.stderr
        said = json.loads(result.stdout)
        lab = psutil.Process(said["pid"])
        broker = lab.children()
        assert broker
        assert os.getsid(lab.pid) == lab.pid
        assert "native tcp:127.0.0.1:" in here("systems", "status").stdout
        other = here("systems", "stop", "nats")
        assert (other.exit_code, "nats is not running" in other.stderr) == (2, True)
        stopped = document(here("systems", "stop", "embedded", "--json").stdout)["stopped"]
        assert [one["pid"] for one in stopped] == [lab.pid]
        assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in (lab, *broker))

    def test_after_a_crash_nothing_is_up(self, tmp_path: Path, started: Start) -> None:
        process = started("embedded")
        answer(process)
        below = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait(240)
        until(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in below))
        assert started_now() == []
        assert [*(tmp_path / "cache" / "started").iterdir()] == []

    def test_what_a_crash_left_before_it_was_up_is_removed(self, tmp_path: Path) -> None:
        gone = subprocess.Popen(["true"])
        gone.wait(240)
        started = tmp_path / "cache" / "started"
        (started / str(gone.pid)).mkdir(parents=True)
        (started / f"{gone.pid}.log").touch()
        (started / str(os.getpid())).mkdir()
        assert started_now() == []
        assert [path.name for path in started.iterdir()] == [str(os.getpid())], "that one may be starting now"

    @pytest.mark.parametrize("detach", [[], ["--detach"]])
    def test_one_that_cannot_be_started(self, tmp_path: Path, detach: list[str]) -> None:
        name = "embedded:file_trace=/no/such/folder/trace"
        result = mqlab("systems", "start", name, *detach, MQLAB_CACHE=str(tmp_path / "cache"))
        assert result.returncode == 7
        assert "/no/such/folder" in " ".join(result.stderr.split())
        assert result.stderr.startswith("mqlab: the embedded broker did not start: ")

    def test_a_program_is_shown_with_all_its_addresses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(SYSTEMS, "listens", Fake)
        monkeypatch.setattr("mqlab.cli.systems.start._run_until_signal", _only_start)
        result = here("systems", "start", "listens")
        assert result.exit_code == 0
        first, second = result.stdout.splitlines()
        assert first.startswith("stomp tcp:127.0.0.1:")
        assert first.endswith(" user=lab")
        assert second == "mqtt tcp:127.0.0.1:1"

    def test_what_is_somebody_elses(self) -> None:
        result = here("systems", "start", "external:driver=native,address=tcp:127.0.0.1:1,password=s3cret")
        assert (result.exit_code, "the lab does not start this system" in result.stderr) == (2, True)

    def test_one_that_ends_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(SYSTEMS, "ends", type("Ends", (Fake,), {"program": ENDS}))
        result = here("systems", "start", "ends")
        assert (result.exit_code, "the disk is full" in result.stderr) == (7, True)


async def _only_start(one: System, as_json: bool) -> None:
    running = await one.start(data_folder(os.getpid()))
    try:
        starting._print(starting._started(one, running), as_json)
    finally:
        await running.stop()
