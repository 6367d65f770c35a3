"""Runs with faults on the embedded broker: they go on, and every message is accounted for."""

from pathlib import Path

import numpy as np
import pytest

from mqlab.events.folder import RunFolder
from mqlab.runner.capability import why_unsupported
from mqlab.systems import system
from mqlab.systems.disk.mounted_disk import why_no_own_disk
from mqlab.systems.embedded.process import BrokerProcess
from runner.lab import columns, conducted, rows

from .faulty_runs import check_run, faulty


def test_a_broker_that_stops_and_is_killed(tmp_path: Path) -> None:
    # Long enough that a broker which takes seconds to start on a busy machine is sampled again.
    folder = conducted(tmp_path, [faulty("stop at 200ms for 200ms and kill at 700ms for 100ms", measure=8.0)])
    found = check_run(folder)
    assert [(row["number"], row["kind"], row["fault"]) for row in found] == [
        (1, "stop", "stop at 200ms for 200ms"), (2, "kill", "kill at 700ms for 100ms"),
    ]  # fmt: skip
    for row, least_s in zip(found, (0.2, 0.1), strict=True):
        assert row["t_planned"] <= row["t_start"] <= row["t_end"] - least_s * 1e9
    samples = columns(folder, "samples", source="broker")
    assert (samples["t"] > found[1]["t_end"]).any(), "the broker that was started again is sampled"
    for name in ("cpu_seconds", "syncs", "bytes_written"):
        assert (np.diff(samples[name][np.argsort(samples["t"])]) >= 0).all(), f"{name} goes on"


def test_a_line_that_is_cut_reset_slow_and_lossy(tmp_path: Path) -> None:
    faults = (
        "cut at 200ms for 200ms and reset at 600ms for 100ms and slow 5ms at 900ms for 100ms "
        "and lossy 20% at 1100ms for 100ms"
    )
    found = check_run(conducted(tmp_path, [faulty(faults)]))
    assert [row["kind"] for row in found] == ["cut", "reset", "slow", "lossy"]


def test_transactions_and_shared_connections_over_restarts(tmp_path: Path) -> None:
    changes = {"transaction": 5, "connections": "shared", "send": "free"}
    folder = conducted(tmp_path, [faulty("restart at 200ms every 400ms", measure=0.9, **changes)])
    assert [row["kind"] for row in check_run(folder)] == ["restart", "restart"]


def in_fault(folder: RunFolder) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The sends of a run with one fault, and which of them began while it lasted."""
    (fault,) = rows(folder, "faults")
    sends = columns(folder, "sends")
    return sends, (sends["t_sent"] >= fault["t_start"]) & (sends["t_sent"] < fault["t_end"])


def test_a_disk_whose_syncs_take_longer(tmp_path: Path) -> None:
    folder = conducted(tmp_path, [faulty("slow-disk 50ms at 200ms for 500ms", measure=0.9)])
    assert [row["kind"] for row in check_run(folder)] == ["slow-disk"]
    sends, during = in_fault(folder)
    # The first ones may belong to a sync that began before.
    waits_s = (sends["t_confirmed"] - sends["t_sent"])[during & (sends["outcome"] == "confirmed")] / 1e9
    assert np.median(waits_s) >= 0.05


@pytest.mark.skipif(bool(why_no_own_disk()), reason=why_no_own_disk())
def test_a_full_disk_refuses_messages_and_loses_none(tmp_path: Path) -> None:
    # In files of 64 KiB, what the broker has reserved before lasts for a fraction of the fault.
    point = faulty("full-disk at 300ms for 1s", measure=1.6, size=2048, settings={"segment_size": "64KiB"})
    folder = conducted(tmp_path, [point])
    assert [row["kind"] for row in check_run(folder)] == ["full-disk"]
    sends, during = in_fault(folder)
    assert (sends["outcome"][during] != "confirmed").any(), "the broker refused messages"
    assert str(tmp_path) not in Path("/proc/mounts").read_text(), "the disk is removed"


def test_a_full_disk_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    sentence = "no full-disk: only root can mount a disk of its own for the system"
    assert why_unsupported(system("embedded"), faulty("full-disk at 200ms for 1ms")) == sentence


def test_a_broker_that_does_not_start_again_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = BrokerProcess.start
    starts = []

    async def start_once(self: BrokerProcess) -> None:
        starts.append(self)
        if len(starts) > 1:
            raise OSError("no")
        await start(self)

    monkeypatch.setattr(BrokerProcess, "start", start_once)
    folder = conducted(tmp_path, [faulty("kill at 200ms", measure=0.5)])
    (run,) = rows(folder, "runs")
    assert run["status"] == "incomplete"
    assert "the embedded broker did not start again" in run["reason"]
    (fault,) = rows(folder, "faults")
    assert (fault["kind"], fault["t_end"]) == ("kill", None)


@pytest.mark.parametrize(
    ("name", "faults", "reason"),
    [
        ("external:driver=native,address=tcp:127.0.0.1:1", "kill at 1s", "no kill: the lab did not start it"),
        ("external:driver=native,address=tcp:127.0.0.1:1", "cut at 200ms for 1ms", ""),
        (
            "external:driver=native,address=tcp:127.0.0.1:1",
            "full-disk at 1s for 1s",
            "no full-disk: the lab did not start it",
        ),
        ("nats", "slow-disk 5ms at 1s for 1s", "no slow-disk: the lab can delay the syncs of the embedded broker only"),
        (
            "kafka",
            "slow-disk 5ms at 1s for 1s",
            "no slow-disk: the lab can delay the syncs of the embedded broker only",
        ),
        ("openmq", "slow 5ms at 200ms for 1ms", "no slow: its port mapper sends clients to another port"),
        ("embedded", "kill at 200ms and cut at 300ms for 1ms", ""),
    ],
)
def test_faults_need_control_of_the_process_or_the_line(name: str, faults: str, reason: str) -> None:
    assert why_unsupported(system(name), faulty(faults)) == reason
