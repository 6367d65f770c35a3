"""Payloads in page files: they come back as they were, and the files go with the last of them."""

import errno
import os
from pathlib import Path

import pytest

from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.payloads.page_files import PAGE_SIZE, PageFiles, StoredPayload, StoredPayloadError
from mqlab.wire.native.bodies import SINGLE, Payload, encode
from process_helpers import descriptors_below

MIB = 1024 * 1024


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class FailingFiles(Files):
    def __init__(self) -> None:
        self.fails = False

    def write_at(self, file: int, data: bytes | bytearray | memoryview, offset: int) -> None:
        if self.fails:
            super().write_at(file, memoryview(data)[: len(data) // 2], offset)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write_at(file, data, offset)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_what_is_written_is_loaded(tmp_path: Path, kind: type) -> None:
    pages = PageFiles(tmp_path / "pages", Files())
    batch = encode([b"one", b"", b"three" * 1000])
    bodies = [(b"single", 1, SINGLE), (bytes(batch.data), 3, 0), (b"", 1, SINGLE | 64)]
    payloads = [Payload(kind(data), rows, form) for data, rows, form in bodies]
    stored = [pages.write(payload) for payload in payloads]
    # In any order, and more than once.
    for payload, one in [*zip(payloads, stored, strict=True)][::-1] * 2:
        assert (one.rows, one.size, one.form) == (payload.rows, len(payload.data), payload.form)
        assert one.load() == payload
    assert pages.counters.bytes == sum(one.size for one in stored)
    pages.close()


def test_a_page_is_removed_when_nothing_in_it_is_needed(tmp_path: Path) -> None:
    pages = PageFiles(tmp_path, Files())
    payload = Payload(bytes(5 * MIB), 1, SINGLE)
    stored = [pages.write(payload) for _ in range(9)]
    assert names(tmp_path) == ["page-0000000001", "page-0000000002", "page-0000000003"]
    assert pages.counters.files == 3
    del stored[3:5]
    assert len(names(tmp_path)) == 3
    del stored[3]
    assert names(tmp_path) == ["page-0000000001", "page-0000000003"]
    assert pages.counters.bytes == 30 * MIB
    # The newest stays: it is being written.
    stored.clear()
    assert names(tmp_path) == ["page-0000000003"]
    pages.close()
    assert names(tmp_path) == []
    assert (pages.counters.files, pages.counters.bytes, pages.counters.written) == (0, 0, 45 * MIB)


def test_a_payload_larger_than_a_page_has_one_of_its_own(tmp_path: Path) -> None:
    pages = PageFiles(tmp_path, Files())
    small, large = Payload(b"small", 1, SINGLE), Payload(os.urandom(PAGE_SIZE + 1), 1, SINGLE)
    stored = [pages.write(one) for one in (small, large, small)]
    assert len(names(tmp_path)) == 3
    assert [one.load() for one in stored] == [small, large, small]
    pages.close()


def test_pages_of_an_earlier_broker_are_removed(tmp_path: Path) -> None:
    left = ["page-0000000001", "page-0000000077"]
    others = ["journal-0000000001", "lock", "page-1", "page-x"]
    for name in left + others:
        (tmp_path / name).write_bytes(b"x")
    PageFiles(tmp_path, Files())
    assert names(tmp_path) == sorted(others)


def test_pages_are_for_their_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "pages"
    pages = PageFiles(folder, Files())
    stored = pages.write(Payload(b"secret", 1, SINGLE))
    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / names(folder)[0]).stat().st_mode & 0o077 == 0
    assert stored.load().data == b"secret"
    pages.close()


@pytest.mark.parametrize("damage", ["changed", "cut off"])
def test_a_payload_that_is_not_what_was_written_is_an_error(tmp_path: Path, damage: str) -> None:
    pages = PageFiles(tmp_path, Files())
    first, second = (pages.write(Payload(body * 10, 1, SINGLE)) for body in (b"first", b"second"))
    path = tmp_path / names(tmp_path)[0]
    whole = bytearray(path.read_bytes())
    whole[60] ^= 1
    path.write_bytes(whole if damage == "changed" else whole[:60])
    assert first.load().data == b"first" * 10
    with pytest.raises(StoredPayloadError, match=rf"{path.name}: byte 50: a payload of 60 bytes"):
        second.load()
    pages.close()


def test_a_full_disk_raises_and_changes_nothing(tmp_path: Path) -> None:
    files = FailingFiles()
    pages = PageFiles(tmp_path, files)
    first = pages.write(Payload(b"first", 1, SINGLE))
    files.fails = True
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            pages.write(Payload(b"too much" * 100, 1, SINGLE))
    files.fails = False
    second = pages.write(Payload(b"second", 1, SINGLE))
    assert [one.load().data for one in (first, second)] == [b"first", b"second"]
    assert pages.counters.written == len(b"firstsecond")
    pages.close()


def test_a_page_that_cannot_begin_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = PageFiles(tmp_path, Files())
    first = pages.write(Payload(bytes(PAGE_SIZE), 1, SINGLE))

    def fails(_: Files, path: Path) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Files, "create_page", fails)
        with pytest.raises(OSError, match="Too many open files"):
            pages.write(Payload(b"next", 1, SINGLE))
    assert pages.write(Payload(b"next", 1, SINGLE)).load().data == b"next"
    assert len(first.load().data) == PAGE_SIZE
    pages.close()


def test_any_number_of_pages_needs_two_descriptors(tmp_path: Path) -> None:
    """A backlog must not use up what connections need."""
    pages = PageFiles(tmp_path, Files())
    stored: list[StoredPayload] = []
    for number in range(8):
        pages.write(Payload(bytes(PAGE_SIZE - 1), 1, SINGLE))
        stored.append(pages.write(Payload(b"%d" % number, 1, SINGLE)))
    assert [one.load().data for one in stored] == [b"%d" % number for number in range(8)]
    assert 0 < descriptors_below(tmp_path) <= 2
    pages.close()
    assert descriptors_below(tmp_path) == 0
