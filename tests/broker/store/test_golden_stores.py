"""Golden stores: this version recovers what earlier versions wrote, and writes its own records as it always did.

`golden/before_manifest` was written by the last version without a manifest, `golden/with_manifest` by the first that
named its record layout in one table. A change of the format adds a folder and keeps the others.
"""

import shutil
from pathlib import Path

import pytest

from mqlab.broker.store.encoding import encode, encode_file_header
from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.journal_format import MAGIC, READABLE
from mqlab.broker.store.recovery.decoding import decode_file_header
from mqlab.broker.store.recovery.recovery import recover
from mqlab.broker.store.segments import segment_numbers, segment_path

from .golden_store import GOLDEN, RECORDS, write_store
from .journal_state import state_of

STORES = sorted(path.name for path in GOLDEN.iterdir())
VERSIONS = {name: segment_path(GOLDEN / name, 1).read_bytes()[: len(MAGIC)] for name in STORES}


def check_recovered(store: Path, keep_in_memory: int, *, has_manifest: bool) -> None:
    recovered = recover(store, Files(), keep_in_memory)
    state = state_of(recovered)
    assert state.names == {1: "orders", 2: "subscription"}
    assert state.options == {1: {}, 2: {"topic": "a.*"}}
    assert state.live == {1: {6: b"prepared"}, 2: {1: b"both", 2: b"committed"}}
    assert state.remembered == {"queue:orders": ["id 0", "id 1", "id 2"]}
    assert [*state.prepared] == ["xid b"]
    assert (recovered.lsn, recovered.torn, recovered.last_queue) == (len(RECORDS), 0, 3)
    assert (recovered.manifest is not None) == has_manifest


def test_every_version_that_recovery_reads_has_a_golden_store() -> None:
    assert {*VERSIONS.values()} == {*READABLE}
    assert MAGIC in READABLE


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("keep_in_memory", [0, 1 << 20])
def test_a_store_of_an_earlier_version_is_recovered(name: str, keep_in_memory: int, tmp_path: Path) -> None:
    store = shutil.copytree(GOLDEN / name, tmp_path / "store")
    check_recovered(store, keep_in_memory, has_manifest=name != "before_manifest")


def test_the_store_that_this_version_writes_is_recovered(tmp_path: Path) -> None:
    write_store(tmp_path / "store")
    check_recovered(tmp_path / "store", 0, has_manifest=True)


@pytest.mark.parametrize("name", [name for name in STORES if VERSIONS[name] == MAGIC])
def test_the_encoder_writes_the_bytes_of_a_store_of_its_version(name: str) -> None:
    lsn = 0
    for number in segment_numbers(GOLDEN / name):
        data = segment_path(GOLDEN / name, number).read_bytes()
        header = decode_file_header(data)
        if header.store:
            encoded = encode_file_header(
                number, lsn + 1, header.declarations, header.remembered, header.last_queue, header.store
            )
            assert encoded == data[: header.size]
        at = header.size
        while at < len(data):
            lsn += 1
            record = encode(RECORDS[lsn - 1], lsn, lsn - 1)
            assert data[at : at + len(record)] == record
            at += len(record)
    assert lsn == len(RECORDS)
