"""What else the machine does while a run is played: a made-up /proc, and the real one."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mqlab.events.schema import MachineRow
from mqlab.runner import conductor, noise
from mqlab.runner import run as running_one
from mqlab.runner.noise import MachineWatch, machine_state, why_disk_disturbs, why_processors_disturb
from runner.lab import conducted, rows
from runner.points import point

LAB = os.getpid()
TICKS = os.sysconf("SC_CLK_TCK")


class Proc:
    """A folder like /proc."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.steal(0.0)

    def steal(self, seconds: float) -> None:
        ticks = round(seconds * TICKS)
        (self.path / "stat").write_text(f"cpu  1 2 3 4 5 6 7 {ticks} 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n")

    def process(self, pid: int, parent: int, name: str, cpu: float, of_children: float = 0.0) -> None:
        folder = self.path / str(pid)
        folder.mkdir(exist_ok=True)
        ticks = f"{round(cpu * TICKS)} 0 {round(of_children * TICKS)} 0"
        (folder / "stat").write_text(f"{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 20 0 1 0\n")

    def disk(self, pid: int, bytes_read: int, bytes_written: int, cancelled: int = 0) -> None:
        """Of a process."""
        lines = ("rchar: 9", f"read_bytes: {bytes_read}", f"write_bytes: {bytes_written}")
        (self.path / str(pid) / "io").write_text("\n".join((*lines, f"cancelled_write_bytes: {cancelled}\n")))

    def disks(self, **worked: float) -> None:
        """How long each disk has worked."""
        lines = [
            f"   8  0 {name} 1 2 3 4 5 6 7 8 0 {round(seconds * 1000)} 9 0 0 0 0 0 0\n"
            for name, seconds in worked.items()
        ]
        (self.path / "diskstats").write_text("".join(lines))

    def end(self, pid: int) -> None:
        (self.path / str(pid) / "stat").unlink()

    def wait(self, **seconds: float) -> None:
        (self.path / "pressure").mkdir(exist_ok=True)
        for resource, value in seconds.items():
            text = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={round(value * 1e6)}\nfull avg10=0.00 total=9\n"
            (self.path / "pressure" / resource).write_text(text)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    made = Proc(tmp_path)
    made.process(1, 0, "init", 10.0)
    made.process(2, 0, "kthreadd", 10.0)
    made.process(3, 2, "kworker/0:1", 10.0)
    made.process(LAB, 1, "mqlab", 10.0)
    made.process(LAB + 1, LAB, "broker (a) b", 10.0)
    made.process(LAB + 2, LAB + 1, "its helper", 10.0)
    made.process(LAB + 3, 1, "browser", 10.0)
    return made


def test_steal_is_what_the_host_took(proc: Proc) -> None:
    watch = MachineWatch(proc.path)
    proc.steal(2.5)
    row = watch.end()
    assert row.steal_seconds == pytest.approx(2.5, abs=1 / TICKS)
    assert row.cores == os.cpu_count()
    assert row.disturbed.startswith("other virtual machines took ")


def test_what_the_lab_and_the_kernel_use_is_not_noise(proc: Proc) -> None:
    watch = MachineWatch(proc.path)
    for pid, parent in ((2, 0), (3, 2), (LAB, 1), (LAB + 1, LAB), (LAB + 2, LAB + 1)):
        proc.process(pid, parent, "busy", 99.0)
    row = watch.end()
    assert (row.foreign_seconds, row.foreign_name, row.disturbed) == (0.0, "", "")


def test_the_busiest_of_the_others_is_named(proc: Proc) -> None:
    watch = MachineWatch(proc.path)
    proc.process(LAB + 3, 1, "browser", 11.0)
    proc.process(LAB + 4, 1, "com(pi)ler", 3.0)
    row = watch.end()
    assert row.foreign_seconds == pytest.approx(4.0)
    assert row.foreign_name == "com(pi)ler"
    assert "other processes (com(pi)ler) took " in row.disturbed


def test_a_process_that_ends_counts_once(proc: Proc) -> None:
    """Its parent is given all that it ever used."""
    proc.process(LAB + 4, LAB + 3, "its child", 50.0)
    watch = MachineWatch(proc.path)
    proc.end(LAB + 4)
    proc.process(LAB + 3, 1, "browser", 10.0, of_children=51.0)
    row = watch.end()
    assert row.foreign_seconds == pytest.approx(1.0)
    assert row.foreign_name == "browser"


def test_a_process_that_ends_unseen_gives_nothing_back(proc: Proc) -> None:
    proc.process(LAB + 4, 1, "orphan", 50.0)
    watch = MachineWatch(proc.path)
    proc.end(LAB + 4)
    row = watch.end()
    assert (row.foreign_seconds, row.foreign_name) == (0.0, "")


def test_of_a_system_that_the_lab_did_not_start_others_cannot_be_told(proc: Proc) -> None:
    watch = MachineWatch(proc.path)
    proc.process(LAB + 3, 1, "rabbitmq", 99.0)
    row = watch.end(system_known=False)
    assert (row.foreign_seconds, row.foreign_name, row.disturbed) == (None, "", "")


def test_waits_are_counted_where_the_kernel_counts_them(proc: Proc) -> None:
    assert MachineWatch(proc.path).end().cpu_wait_seconds is None
    proc.wait(cpu=1.0, memory=0.0, io=0.5)
    watch = MachineWatch(proc.path)
    proc.wait(cpu=1.25, memory=0.0, io=2.5)
    row = watch.end()
    assert (row.cpu_wait_seconds, row.memory_wait_seconds, row.disk_wait_seconds) == (0.25, 0.0, 2.0)


def machine(cores: int, seconds: float = 1.0, **changes: Any) -> MachineRow:
    """As it is recorded, when nothing else ran."""
    return replace(MachineRow(seconds=seconds, cores=cores, steal_seconds=0.0, foreign_seconds=0.0), **changes)


@pytest.mark.parametrize(
    ("steal", "foreign", "name", "why"),
    [
        (0.0, 0.0, "", ""),
        (0.12, 0.08, "cron", ""),
        (0.24, 0.0, "", "other virtual machines took 12% of the processors"),
        (0.0, 0.5, "cc1", "other processes (cc1) took 25% of the processors"),
        (0.2, 0.1, "", "other virtual machines took 10% and other processes took 5% of the processors"),
    ],
)
def test_a_run_is_disturbed_above_a_tenth(steal: float, foreign: float, name: str, why: str) -> None:
    assert noise.MAX_TAKEN_SHARE == 0.1
    row = machine(2, steal_seconds=steal, foreign_seconds=foreign, foreign_name=name)
    assert why_processors_disturb(row) == why


@pytest.mark.parametrize("cores", [2, 8, 64])
def test_half_a_processor_disturbs_however_many_there_are(cores: int) -> None:
    """The one thread that limits a system may be on that processor."""
    half = machine(cores, seconds=4.0, foreign_seconds=2.0, foreign_name="cc1")
    of_all = "25% of the processors" if cores == 2 else "50% of one processor"
    assert why_processors_disturb(half) == f"other processes (cc1) took {of_all}"
    assert not why_processors_disturb(machine(cores, seconds=4.0, foreign_seconds=0.8))


@pytest.mark.parametrize("cores", [8, 64])
def test_what_the_host_takes_is_a_share_of_all_processors(cores: int) -> None:
    assert not why_processors_disturb(machine(cores, steal_seconds=0.1 * cores))
    assert why_processors_disturb(machine(cores, steal_seconds=0.11 * cores)).endswith("took 11% of the processors")


def test_the_time_of_the_disk_is_divided_by_the_bytes(proc: Proc) -> None:
    proc.disks(vda=100.0, vdb=50.0)
    proc.disk(LAB + 1, 0, 5_000_000)
    proc.disk(LAB + 3, 7_000, 9_000)
    watch = MachineWatch(proc.path)
    proc.disks(vda=104.0, vdb=51.0)
    proc.disk(LAB + 1, 1_000_000, 7_000_000)
    proc.disk(LAB + 3, 107_000, 1_009_000, cancelled=100_000)
    row = watch.end(is_persistent=True)
    assert row.foreign_disk_seconds == pytest.approx(1.0)  # 1 of 4 MB
    assert row.disturbed.startswith("the disk worked ")
    assert row.disturbed.endswith("% of the time for other processes (browser)")


def test_the_disk_of_runs_that_write_nothing_may_be_used(proc: Proc) -> None:
    proc.disks(vda=1.0)
    watch = MachineWatch(proc.path)
    proc.disks(vda=90.0)
    proc.disk(LAB + 3, 0, 1_000_000)
    row = watch.end()
    assert row.foreign_disk_seconds == pytest.approx(89.0)
    assert row.disturbed == ""


def test_a_disk_that_only_the_lab_uses_disturbs_nothing(proc: Proc) -> None:
    assert MachineWatch(proc.path).end(is_persistent=True).foreign_disk_seconds is None
    proc.disks(vda=1.0)
    watch = MachineWatch(proc.path)
    proc.disks(vda=90.0)
    proc.disk(LAB + 1, 0, 1_000_000)
    row = watch.end(is_persistent=True)
    assert (row.foreign_disk_seconds, row.disturbed) == (0.0, "")


def test_little_use_of_the_disk_disturbs_nothing() -> None:
    assert not why_disk_disturbs(machine(2, seconds=2.0, foreign_disk_seconds=0.2), "cron")
    assert why_disk_disturbs(machine(2, seconds=2.0, foreign_disk_seconds=0.5), "") == (
        "the disk worked 25% of the time for other processes"
    )


def test_a_busy_process_of_somebody_else_is_seen() -> None:
    """For real: it is nobody's child any more, as those of other users are not the lab's."""
    spin = f"{sys.executable} -c 'while True: pass'"
    started = subprocess.run(["sh", "-c", f"{spin} >/dev/null 2>&1 & echo $!"], capture_output=True, check=True)
    busy = int(started.stdout)
    try:
        watch, row = MachineWatch(), None
        while row is None or not row.foreign_seconds:
            row = watch.end()
    finally:
        os.kill(busy, 9)
    assert row.seconds > 0


def test_a_writer_of_somebody_else_is_seen(tmp_path: Path) -> None:
    """For real: each write waits for the disk."""
    if not os.major(tmp_path.stat().st_dev) or not Path("/proc/diskstats").exists():
        pytest.skip("no disk whose work the kernel counts")
    write = f"dd if=/dev/zero of={tmp_path}/written bs=64k count=1 conv=fsync"
    command = f"(while true; do {write}; done) >/dev/null 2>&1 & echo $!"
    started = subprocess.run(["sh", "-c", command], capture_output=True, check=True, start_new_session=True)
    busy = int(started.stdout)
    try:
        watch, row = MachineWatch(), None
        while row is None or not row.foreign_disk_seconds:
            row = watch.end(is_persistent=True)
    finally:
        os.killpg(os.getpgid(busy), 9)
    assert row.seconds > 0


def test_the_state_of_the_machine() -> None:
    state = machine_state()
    assert len(state["load_average"]) == 3
    assert state["clock_hz"] is None or state["clock_hz"] > 1e8


class Disturbances:
    """Stands in for MachineWatch: says which of the watched runs are disturbed."""

    def __init__(self, *disturbed: bool) -> None:
        self._disturbed = [*disturbed]

    def __call__(self, **_: object) -> "Disturbances":
        return self

    def end(self, *, system_known: bool, is_persistent: bool) -> MachineRow:
        assert system_known
        assert not is_persistent
        disturbed = self._disturbed.pop(0) if self._disturbed else False
        return MachineRow(seconds=1.0, cores=2, steal_seconds=0.0, disturbed="by a test" if disturbed else "")


def played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *disturbed: bool, repetitions: int
) -> list[tuple[int, str]]:
    """The repetition of each run, and whether it was disturbed."""
    monkeypatch.setattr(running_one, "MachineWatch", Disturbances(*disturbed))
    folder = conducted(tmp_path, [point(least=repetitions, most=repetitions)], watch_noise=True)
    assert folder.meta()["noise"]["max_taken_share"] == noise.MAX_TAKEN_SHARE
    found = {row["run"]: row["disturbed"] for row in rows(folder, "machine")}
    return [(run["repetition"], found[run["run"]]) for run in rows(folder, "runs")]


BY_A_TEST = "by a test"


def test_a_disturbed_run_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = played(tmp_path, monkeypatch, False, True, repetitions=3)
    assert runs == [(1, ""), (2, BY_A_TEST), (2, ""), (3, "")]


def test_it_is_repeated_only_so_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conductor, "_REPEATED_SHARE", 2.0)
    runs = played(tmp_path, monkeypatch, *[True] * 4, repetitions=2)
    assert runs == [(1, BY_A_TEST)] * 3 + [(2, BY_A_TEST), (2, "")]


def test_a_machine_that_is_never_quiet_costs_a_third(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = played(tmp_path, monkeypatch, *[True] * 9, repetitions=3)
    assert runs == [(1, BY_A_TEST)] * 2 + [(2, BY_A_TEST), (3, BY_A_TEST)]


def test_noise_can_be_ignored(tmp_path: Path) -> None:
    folder = conducted(tmp_path, [point()])
    assert folder.meta()["noise"] is None
    assert rows(folder, "machine") == []
