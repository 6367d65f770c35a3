"""Tasks find in event files what this process finds."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mqlab.events.compaction import compact
from mqlab.events.folder import RunFolder
from mqlab.events.schema import COMPLETE
from mqlab.events.sources import EventSources, examine_events
from mqlab.pipeline import shared_folder
from mqlab.pipeline.shared_folder import examine, examine_in_tasks
from pipeline.cases import CASES
from pipeline.synthetic_runs import write, write_by_run


def leave(_: Path) -> None:
    """The file is sound."""


def flip(path: Path, place: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 1
    path.write_bytes(content)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def found(sources: EventSources) -> dict[str, list[tuple[object, ...]]]:
    return {
        table: [
            (file.path, file.checksum, file.damage, file.part, file.first_group, file.location)
            + (() if file.damage else (tuple(file.row_group_sizes()),))
            for file in files
        ]
        for table, files in sources.files.items()
    }


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize(
    ("harm", "is_damaged"),
    [
        (leave, False), (lambda path: flip(path, 0.1), True), (lambda path: flip(path, 0.99), True),
        (replace_by_folder, True),
    ],
)  # fmt: skip
def test_tasks_find_the_same(
    is_compacted: bool, harm: Callable[[Path], None], is_damaged: bool, spark: SparkSession, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Also if one of them is too few."""
    folder = write(tmp_path / "run", [])
    write_by_run(folder, [*CASES.values()][:6])
    folder.write_meta({**folder.meta(), "status": COMPLETE})
    if is_compacted:
        compact(folder)
    harm(folder.event_files("receipts")[0])
    monkeypatch.setattr(shared_folder, "_TASK_BYTES", 10_000)
    by_tasks, here = examine_in_tasks(spark, folder), examine_events(folder)
    assert found(by_tasks) == found(here)
    assert by_tasks.damaged == here.damaged
    assert bool(here.damaged) == is_damaged


def test_on_this_machine_no_task_is_needed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder: RunFolder = write(tmp_path / "run", [CASES["lost"]])
    monkeypatch.setattr(shared_folder, "examine_in_tasks", lambda *_: pytest.fail("tasks were started"))
    assert found(examine(spark, folder)) == found(examine_events(folder))
