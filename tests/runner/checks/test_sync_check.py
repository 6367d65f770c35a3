"""Whether a system syncs before it confirms, as its system calls show."""

import shutil
from pathlib import Path

import pytest
import uvloop

from mqlab.runner.agents.process import probe
from mqlab.runner.checks.sync_check import ConfirmedSend, SyncCheck, compare, sync_ends, trace_syncs
from mqlab.systems import system

RECORD = """\
101   1700000000.100000 fdatasync(7) = 0 <0.000500>
101   1700000000.200000 fdatasync(7 <unfinished ...>
102   1700000000.200100 fsync(9) = -1 EIO (Input/output error) <0.000100>
101   1700000000.200900 <... fdatasync resumed>) = 0 <0.000900>
103   1700000000.300000 pwrite64(12, "abc"..., 3, 0) = 3 <0.000200>
103   1700000000.400000 pwrite64(13, "abc"..., 3, 0) = 3 <0.000200>
103   1700000000.500000 msync(0x7f0000000000, 4096, MS_SYNC) = 0 <0.000100>
103   1700000000.600000 +++ exited with 0 +++
"""
MESSAGES = 20


def test_every_sync_that_succeeded_counts_at_its_end() -> None:
    assert sync_ends(RECORD.splitlines()) == pytest.approx(
        [1700000000.1005, 1700000000.2009, 1700000000.5001], abs=1e-6
    )


def test_a_write_counts_where_the_file_syncs_by_itself() -> None:
    assert 1700000000.3002 in [pytest.approx(end, abs=1e-6) for end in sync_ends(RECORD.splitlines(), [12])]
    assert len(sync_ends(RECORD.splitlines(), [12])) == 4


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ([1.5, 3.5], "syncs before it confirms: 2 syncs for 2 confirmations"),
        ([1.5], "confirms before it syncs: 1 of 2 confirmations had a sync before them"),
        ([2.5, 4.5], "confirms before it syncs: 0 of 2 confirmations had a sync before them"),
    ],
)
def test_a_sync_must_end_between_the_send_and_its_confirmation(ends: list[float], says: str) -> None:
    assert str(compare([ConfirmedSend(1, 2), ConfirmedSend(3, 4)], ends)) == says


@pytest.mark.parametrize(("settings", "syncs"), [("", True), (":sync=off", False)])
def test_the_embedded_broker(tmp_path: Path, settings: str, syncs: bool) -> None:
    found = uvloop.run(_watched(settings, tmp_path))
    if shutil.which("strace") is None:
        assert str(found) == "not seen: strace is not installed"
    elif not found.why:  # a machine may forbid to look at another process, and then it says so
        assert (found.confirmed, found.synced == MESSAGES) == (MESSAGES, syncs)


async def _watched(settings: str, folder: Path) -> SyncCheck:
    chosen = system(f"embedded{settings}")
    running = await chosen.start(folder / "data")
    try:
        assert running.pid is not None

        async def send() -> list[ConfirmedSend]:
            times = await probe(chosen.driver, running.address, {}, "queue:probe", MESSAGES)
            return [ConfirmedSend(*pair) for pair in times]

        return await trace_syncs(running.pid, folder / "calls", send)
    finally:
        await running.stop()
