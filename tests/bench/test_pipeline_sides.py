"""The guard of `bench/pipeline.py`: an engine with too little memory ends, and not the machine or the benchmark."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from math import isnan
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from mqlab.events.folder import RunFolder

SIZE = 100


@pytest.fixture
def sides(import_benchmarks: None) -> ModuleType:  # noqa: ARG001
    import _pipeline_sides

    return _pipeline_sides


@pytest.fixture
def other() -> Iterator[psutil.Process]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        yield psutil.Process(child.pid)
        child.kill()


def test_only_a_process_above_its_share_of_the_memory_is_ended(
    sides: ModuleType, other: psutil.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides._end_if_too_large(other)
    assert other.is_running()
    assert other.status() != psutil.STATUS_ZOMBIE
    monkeypatch.setattr(sides, "_MEMORY_SHARE", 0.0)
    sides._end_if_too_large(other)
    psutil.wait_procs([other], timeout=60)
    assert not other.is_running()
    sides._end_if_too_large(other)


def test_an_engine_that_was_ended_has_no_answers_and_no_time(
    sides: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It reads a file that never comes, and has answers of an earlier round."""
    monkeypatch.setattr(sides, "_MEMORY_SHARE", 0.0)
    monkeypatch.setattr(sides, "ENGINES", {"greedy": Path.read_bytes})
    os.mkfifo(tmp_path / "events")
    bench = object.__new__(sides.Bench)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        bench._others = {"greedy": pool}
        bench._processes = {"greedy": psutil.Process(pool.submit(os.getpid).result())}
        bench._folders = {SIZE: RunFolder(tmp_path)}
        bench._answers = {(SIZE, "greedy"): {}}
        assert isnan(bench.seconds(SIZE, "greedy"))
        assert not bench.has_answers(SIZE, "greedy")
        assert "greedy has no answers at 100 messages, perhaps for want of memory" in capsys.readouterr().err
        # In the next round as well.
        assert isnan(bench.seconds(SIZE, "greedy"))
