"""The folder that the user names for the data of the systems."""

from pathlib import Path

from runner.lab import Once, conducted, rows
from runner.points import LONG, point


def test_a_system_has_its_data_below_the_folder_that_was_named(tmp_path: Path) -> None:
    seen: list[Path] = []
    data = tmp_path / "disk"
    data.mkdir()
    watch = Once("measure", lambda: seen.extend(data.glob("*/*-embedded/journal-*")))
    folder = conducted(tmp_path, [point(measure=LONG, persistent=True)], data=data, watch=watch)
    assert [run["status"] for run in rows(folder, "runs")] == ["complete"]
    assert seen, "the journal of the broker was there"
    assert not [*data.iterdir()], "and nothing is left of it"
