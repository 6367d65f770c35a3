"""The checks of the machine: made-up machines, each with one thing that spoils a measurement."""

from pathlib import Path

import psutil
import pytest

from mqlab.events.schema import MachineRow
from mqlab.runner.doctor import disk, examination, memory
from mqlab.runner.doctor.machine_finding import MachineFinding, Weight, worst
from mqlab.runner.doctor.other_work import broker_check, noise_checks
from mqlab.runner.doctor.processor import processor_checks

CPU = "sys/devices/system/cpu/cpu0"
CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"


def processors(root: Path, files: dict[str, str]) -> dict[str, MachineFinding]:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    return {finding.check: finding for finding in processor_checks(root)}


@pytest.mark.parametrize(
    ("files", "check", "weight", "words"),
    [
        ({f"{CPU}/cpufreq/scaling_governor": "performance"}, "power saving", "fine", "governor performance"),
        ({f"{CPU}/cpufreq/scaling_governor": "powersave", f"{CPU}/cpufreq/scaling_cur_freq": "800",
          f"{CPU}/cpufreq/cpuinfo_max_freq": "3200"}, "power saving", "much", "at 25% of the highest frequency"),
        ({f"{CPU}/cpufreq/scaling_governor": "schedutil", f"{CPU}/cpufreq/scaling_cur_freq": "3200",
          f"{CPU}/cpufreq/cpuinfo_max_freq": "3200"}, "power saving", "some", "governor schedutil"),
        ({"sys/class/power_supply/AC/online": "0", "sys/class/power_supply/AC/type": "Mains"}, "power saving", "much",
         "on battery"),
        ({}, "power saving", "unknown", "the kernel shows no frequency"),
        ({f"{CPU}/thermal_throttle/core_throttle_count": "7"}, "throttling", "some", "7 times by heat"),
        ({f"{CPU}/thermal_throttle/core_throttle_count": "0"}, "throttling", "fine", "never by heat"),
        ({"sys/fs/cgroup/cpu.stat": "usage_usec 1\nnr_throttled 12"}, "throttling", "much", "12 periods"),
        ({}, "throttling", "unknown", "the kernel does not count it"),
        ({CLOCK: "tsc"}, "clock", "fine", "tsc, "),
        ({CLOCK: "hpet"}, "clock", "some", "hpet, "),
        ({}, "clock", "unknown", "unknown source"),
        ({"sys/fs/cgroup/cpu.max": "50000 100000"}, "processors", "much", "0.5 of "),
        ({"sys/fs/cgroup/cpu.max": "max 100000"}, "processors", None, " usable"),
    ],
)  # fmt: skip
def test_processors(tmp_path: Path, files: dict[str, str], check: str, weight: Weight | None, words: str) -> None:
    found = processors(tmp_path, files)[check]
    assert weight in (None, found.weight)
    assert words in found.measured
    assert bool(found.cure) == bool(found.effect) == (found.weight in ("some", "much"))


def test_memory_and_limits() -> None:
    assert memory._memory(8 << 30) == MachineFinding("memory", "fine", "8.0 GiB free")
    assert memory._memory(1 << 30).weight == "much"
    assert memory._swap(0) == MachineFinding("swap", "fine", "none used")
    assert (memory._swap(1 << 30).weight, memory._swap(1 << 30).measured) == ("some", "1.0 GiB used")
    assert memory._open_files(1024).weight == "some"
    assert memory._open_files(-1) == MachineFinding("open files", "fine", "not limited")
    assert [finding.check for finding in memory.memory_checks()] == ["memory", "swap", "open files"]


def test_the_limit_of_a_container_counts(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.current").write_text(f"{3 << 28}\n")
    (group / "memory.stat").write_text(f"anon {1 << 28}\ninactive_file {1 << 28}\n")
    for limit, weight in (("1073741824\n", "much"), ("max\n", next(memory.memory_checks(tmp_path / "none")).weight)):
        (group / "memory.max").write_text(limit)
        assert next(memory.memory_checks(tmp_path)).weight == weight
    (group / "memory.max").write_text("1073741824\n")
    assert next(memory.memory_checks(tmp_path)).measured == "0.5 GiB free"


@pytest.mark.parametrize(
    ("seconds", "kind", "weight"),
    [(0.001, "ext4", "fine"), (0.02, "ext4", "some"), (0.001, "tmpfs", "much"), (1e-6, "ext4", "much")],
)
def test_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, kind: str, weight: Weight) -> None:
    monkeypatch.setattr(disk, "_sync_seconds", lambda _: [seconds])
    monkeypatch.setattr(disk, "filesystem_of", lambda _: kind)
    found = disk.sync_check(tmp_path)
    assert (found.weight, found.measured) == (weight, f"a sync takes {seconds * 1e3:.2g} ms on {kind}")


def test_syncs_are_measured_and_leave_nothing(tmp_path: Path) -> None:
    assert all(seconds > 0 for seconds in disk._sync_seconds(tmp_path))
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(("free", "weight"), [(50 << 30, "fine"), (5 << 30, "some"), (1 << 30, "much")])
def test_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, weight: Weight) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": free}))
    assert disk.room_check(tmp_path).weight == weight


def watched(steal: float, foreign: float, name: str = "cc1") -> list[MachineFinding]:
    row = MachineRow(
        seconds=2.0, cores=2, steal_seconds=steal, foreign_seconds=foreign, foreign_name=name, cpu_wait_seconds=None,
        memory_wait_seconds=None, disk_wait_seconds=None, clock_hz=None, disturbed="",
    )  # fmt: skip
    return [*noise_checks(row)]


def test_other_work() -> None:
    processes, machines = watched(steal=0.2, foreign=2.0)
    assert (processes.weight, processes.measured) == ("much", "50.0% of the processors, most by cc1")
    assert (machines.weight, machines.measured) == ("some", "5.0% of the processors")
    assert [finding.weight for finding in watched(0.0, 0.01)] == ["fine", "fine"]


class FakeProcess:
    pid = 77

    def __init__(self, *command: str) -> None:
        self._command = command

    def cmdline(self) -> tuple[str, ...]:
        if not self._command:
            raise psutil.NoSuchProcess(77)
        return self._command


def test_other_brokers() -> None:
    processes = [FakeProcess(), FakeProcess("/usr/sbin/mosquitto", "-c"), FakeProcess("vi", "notes")]
    found = broker_check(processes)  # type: ignore[arg-type] # a stand-in for psutil's class
    assert (found.weight, found.measured) == ("some", "Mosquitto (process 77)")
    assert broker_check([]).weight == "fine"


def test_the_worst_comes_first() -> None:
    some, much = MachineFinding("a", "some", "1", "x", "y"), MachineFinding("b", "much", "2", "slower", "z")
    assert worst([MachineFinding("c", "fine", ""), some, much]) is much
    assert worst([some]) is some
    assert worst([MachineFinding("c", "unknown", ""), MachineFinding("d", "fine", "")]) is None
    assert str(much) == "b: 2; slower"


def test_every_check_runs_here(tmp_path: Path) -> None:
    checks = [finding.check for finding in examination.all_findings(tmp_path / "later" / "runs", 0.01)]
    assert checks == [
        "other processes", "other virtual machines", "steady speed", "processors", "power saving", "throttling",
        "clock", "memory", "swap", "open files", "disk", "disk room", "other brokers",
    ]  # fmt: skip
    quick = [finding.check for finding in examination.quick_findings(tmp_path / "later")]
    assert {*quick} == {*checks} - {"other processes", "other virtual machines", "steady speed"} | {"other work"}
    assert [*tmp_path.iterdir()] == []
