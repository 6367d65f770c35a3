"""A flipped bit anywhere in an event file is found before anything is read from it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mqlab.events.checksums import EventFile, examine
from mqlab.events.folder import RunFolder
from mqlab.events.recorder import Recorder, event_table


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """With dictionaries, plain pages and nulls, as a run writes it."""
    folder = RunFolder.create(tmp_path, "x")
    recorder = Recorder(folder, 7, 1)
    for number in range(200):
        recorder.sends.append(
            producer=1, destination=0, first_seq=number * 10, count=10, bytes=120, t_planned=number,
            t_sent=1000 + number, t_confirmed=-1 if number % 3 else 5000, outcome=0,
        )  # fmt: skip
    recorder.close()
    (path,) = folder.event_files("sends")
    return path


def test_an_intact_file_is_sound_and_tells_its_run(file: Path) -> None:
    found = examine(file)
    assert (found.damage, found.run) == ("", 7)
    assert found.checksum in file.name


def test_every_flip_is_found(file: Path) -> None:
    """In every byte: magic numbers, page headers, dictionaries, data, footer, the footer's length."""
    content = file.read_bytes()
    assert content[:4] == content[-4:] == b"PAR1"
    missed = []
    for position in range(len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 1 << (position % 8)
        file.write_bytes(flipped)
        if not examine(file).damage:
            missed.append(position)
    assert missed == []


@pytest.mark.parametrize("change", [lambda c: c[:-1], lambda c: c + b"\0", lambda _: b"", lambda c: c[::-1]])
def test_a_file_that_was_cut_or_grew_is_damaged(file: Path, change: Callable[[bytes], bytes]) -> None:
    file.write_bytes(change(file.read_bytes()))
    assert examine(file).damage == "does not match its checksum"


def test_a_file_that_cannot_be_checked_is_damaged(file: Path) -> None:
    found = examine(file.rename(file.with_name("run-00003-agent-1-1.parquet")))
    assert (found.damage, found.run) == ("has no checksum in its name", 3)


def test_a_file_that_is_gone_or_no_file_is_damaged(tmp_path: Path) -> None:
    assert examine(tmp_path / "run-00001.parquet") == EventFile(
        tmp_path / "run-00001.parquet", "", "No such file or directory"
    )
    assert examine(tmp_path).damage == "Is a directory"


def test_a_name_without_a_run_stands_for_every_run(tmp_path: Path) -> None:
    assert EventFile(tmp_path / "part-0.parquet", "").run is None


def test_the_same_rows_have_the_same_name(tmp_path: Path) -> None:
    row = {"run": 1, "phase": "measure", "t_start": 1, "t_end": 2}
    folder = RunFolder.create(tmp_path, "x")
    for _ in range(2):
        folder.write_events("phases", "run-00001", event_table("phases", [row]))
    assert len(folder.event_files("phases")) == 1
