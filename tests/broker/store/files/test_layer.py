"""The file layer itself, and its two stand-ins that are for use: the rotating disk and the trace."""

import time
from io import StringIO
from pathlib import Path

import pytest

from mqlab.broker.store.files.layer import Files, RotatingDisk, TracedFiles


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    files, path = Files(), tmp_path / "file"
    file = files.create(path)
    files.append(file, b"one ")
    files.append(file, b"two")
    files.sync(file)
    files.close(file)
    assert files.read(path) == b"one two"
    files.truncate(path, 3)
    files.sync_path(path)
    assert files.read(path) == b"one"
    files.remove(path)
    files.sync_folder(tmp_path)
    assert not path.exists()


def test_a_large_append_is_written_whole(tmp_path: Path) -> None:
    files, data = Files(), bytes(range(256)) * 40_000
    file = files.create(tmp_path / "file")
    files.append(file, data)
    files.close(file)
    assert files.read(tmp_path / "file") == data


def test_after_a_failed_append_the_next_goes_on_where_it_began(tmp_path: Path) -> None:
    files, path = Files(), tmp_path / "file"
    file = files.create(path)
    files.reserve(file, 5000)
    files.append(file, b"one")
    files.append(file, b" half of tw")
    files.cut_back(file, 3)
    files.append(file, b", two")
    files.close(file)
    assert files.read(path) == b"one, two"


def test_what_was_reserved_is_zeros_until_it_is_given_back(tmp_path: Path) -> None:
    files, path = Files(), tmp_path / "file"
    file = files.create(path)
    files.reserve(file, 5000)
    files.append(file, b"one")
    assert files.read(path).rstrip(b"\0") == b"one"
    files.give_back(file, 3)
    files.close(file)
    assert files.read(path) == b"one"


def test_a_file_that_is_there_is_not_created_again(tmp_path: Path) -> None:
    Files().close(Files().create(tmp_path / "file"))
    with pytest.raises(FileExistsError):
        Files().create(tmp_path / "file")


def test_a_rotating_disk_completes_its_syncs_at_its_marks(tmp_path: Path) -> None:
    disk = RotatingDisk(250)
    file = disk.create(tmp_path / "file")
    begin = time.monotonic()
    for _ in range(25):
        disk.append(file, b"x")
        disk.sync(file)
    # Each waits for the mark after the one before it, so 25 syncs take at least 24 turns.
    assert time.monotonic() - begin > 24 / 250
    disk.close(file)


def test_a_trace_has_a_line_for_each_call_in_their_order(tmp_path: Path) -> None:
    trace = StringIO()
    files = TracedFiles(Files(), trace)
    file = files.create(tmp_path / "file")
    files.append(file, b"12345")
    files.append(file, b"678")
    files.sync(file)
    files.append(file, b"9")
    lines = [line.split() for line in trace.getvalue().splitlines()]
    assert [(call, name, offset, size) for call, name, _, _, offset, size in lines] == [
        ("append", "file", "0", "5"), ("append", "file", "5", "3"),
        ("sync", "file", "0", "8"), ("append", "file", "8", "1"),
    ]  # fmt: skip
    times = [int(when) for _, _, begin, end, _, _ in lines for when in (begin, end)]
    assert times == sorted(times)
