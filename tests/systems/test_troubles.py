"""Real brokers that die, hang, have a full disk, or let nobody in: what their runs say, and that nothing is left."""

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mqlab.events.folder import RunFolder
from mqlab.runner import run as running_one
from mqlab.runner.agents import channel, group
from mqlab.study import Point
from mqlab.systems import SYSTEMS, System
from mqlab.systems.program import Launch, Program
from runner import lab
from runner.lab import Once, rows
from runner.points import LONG, point
from runner.programs import programs_running

TWICE = point("A", domain="topic", size=1024, batch=64, drain=1, least=2, most=2, measure=LONG)
# More is kept than a file may hold.
MUCH = point("A", size=100_000, batch=1, persistent=True, send="confirmed", consume_rate=10, drain=1, measure=1)
on_redis, on_nats, on_mosquitto = (pytest.mark.needs_system(name) for name in ("redis", "nats", "mosquitto"))


def conducted(folder: Path, chosen: Point, systems: list[str | System], watch: lab.Watch = lab.ignore) -> RunFolder:
    try:
        return lab.conducted(folder, [chosen], systems=systems, agents=1, watch=watch)
    finally:
        assert programs_running() == []


def outcomes(folder: RunFolder, name: str) -> list[tuple[str, str]]:
    return [(run["status"], run["reason"]) for run in rows(folder, "runs", system=name)]


def to_the(name: str, number: int) -> Callable[[], None]:
    def tell() -> None:
        [broker] = [one for one in programs_running() if one.name().startswith(name)]
        broker.send_signal(number)

    return tell


@pytest.mark.parametrize("name", [pytest.param(mark.args[0], marks=mark) for mark in (on_redis, on_nats, on_mosquitto)])
def test_it_dies(tmp_path: Path, name: str) -> None:
    kill = Once("measure", to_the(name, signal.SIGKILL))
    folder = conducted(tmp_path, TWICE, [name, "embedded"], watch=kill)
    (broken, why), after = outcomes(folder, name)
    assert (broken, after) == ("incomplete", ("complete", ""))
    assert f"{name} is gone: it was killed by SIGKILL" in why
    assert outcomes(folder, "embedded") == [("complete", "")] * 2


@on_redis
def test_it_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((group, "_FINISH_SECONDS"), (running_one, "_GRACE_SECONDS"), (channel, "_STOP_SECONDS")):
        assert hasattr(module, name)
        monkeypatch.setattr(module, name, 1.0)
    monkeypatch.setattr("mqlab.systems.supervise.supervised_process.GRACE_SECONDS", 0.5)
    freeze = Once("warm-up", to_the("redis", signal.SIGSTOP))
    (broken, why), after = outcomes(conducted(tmp_path, TWICE, ["redis"], watch=freeze), "redis")
    assert (broken, after) == ("incomplete", ("complete", ""))
    assert "the system hangs" in why


def changed(name: str, change: Callable[[Path, Launch], Launch]) -> System:
    """The system of that name, launched otherwise."""
    kind = SYSTEMS[name]
    assert issubclass(kind, Program)

    def launch(self: Program, folder: Path, ports: Callable[[], int]) -> Launch:
        return change(folder, kind.launch(self, folder, ports))

    made: type[Program] = type(kind.__name__, (kind,), {"launch": launch})
    return made({})


def _small_files(_: Path, launch: Launch) -> Launch:
    """Of 2 MB at most; a write beyond that fails as on a full disk."""
    limited = ["sh", "-c", "trap '' XFSZ && ulimit -f 2000 && exec \"$@\"", "sh"]
    return replace(launch, arguments=[*limited, *launch.arguments])


@on_redis
def test_its_disk_is_full(tmp_path: Path) -> None:
    folder = conducted(tmp_path, MUCH, [changed("redis", _small_files), "embedded"])
    [(broken, why)] = outcomes(folder, "redis")
    assert broken == "incomplete"
    assert "redis is gone: it ended with code 1" in why
    assert "AOF write error" in why, "its own words"
    assert outcomes(folder, "embedded") == [("complete", "")]


def _locked(file: str, lock: str, driver: str) -> Callable[[Path, Launch], Launch]:
    """With a line in its configuration, and a driver that has the wrong password."""

    def change(folder: Path, launch: Launch) -> Launch:
        with (folder / file).open("a") as configuration:
            configuration.write(f"{lock}\n")
        return replace(launch, options={driver: {"user": "default", "password": "wrong"}})

    return change


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        pytest.param("redis", _locked("redis.conf", "requirepass right", "resp"), "WRONGPASS", marks=on_redis),
        pytest.param(
            "nats", _locked("nats.conf", 'authorization { user: "default", password: "right" }', "nats"),
            "Authorization Violation", marks=on_nats,
        ),
        pytest.param(
            "mosquitto", _locked("mosquitto.conf", "password_file /dev/null", "mqtt"), "the system refuses the connect",
            marks=on_mosquitto,
        ),
    ],
)  # fmt: skip
def test_it_refuses_the_login(tmp_path: Path, name: str, change: Callable[[Path, Launch], Launch], words: str) -> None:
    [(broken, why)] = outcomes(conducted(tmp_path, point(domain="topic"), [changed(name, change)]), name)
    assert broken == "incomplete"
    assert words in why
