"""Stores that earlier versions wrote: this version recovers them, and still writes the same bytes.

`golden/before_manifest` was written by the last version without a manifest, `golden/with_manifest` by the first that
named its record layout in one table. A change of the format adds a folder here and keeps these.
"""

import shutil
from pathlib import Path

import pytest

from mqlab.broker.core.durability.records import (
    Commit,
    Decide,
    Declare,
    Forget,
    Prepare,
    Put,
    Record,
    Remember,
    Remove,
    Shut,
)
from mqlab.broker.store.encoding import encode, encode_file_header
from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.recovery.decoding import decode_file_header
from mqlab.broker.store.recovery.recovery import recover
from mqlab.broker.store.segments import segment_path
from mqlab.wire.native.bodies import SINGLE, Payload
from mqlab.wire.native.bodies import encode as encode_bodies

from .meaning import state_of

GOLDEN = Path(__file__).parent / "golden"
STORES = ["before_manifest", "with_manifest"]
# Every kind of record; each was synced before the next was written.
RECORDS: list[Record] = [
    Declare(1, "orders", 1),
    Declare(2, "subscription", 1, {"topic": "a.*"}),
    Put(((1, 1),), encode_bodies([b"one", b"two", b"three"])),
    Put(((1, 4),), Payload(b"single", 1, SINGLE)),
    Put(((1, 5), (2, 1)), encode_bodies([b"both"]), "topic:t"),
    Remove(1, ((2, 1),)),
    Commit((Put(((2, 2),), encode_bodies([b"committed"])),), (Remove(1, ((4, 1),)),)),
    Prepare("xid a", (Put(((1, 6),), encode_bodies([b"prepared"])),), (Remove(1, ((1, 1),)),)),
    Decide("xid a", True),
    Prepare("xid b", (Put(((1, 7),), encode_bodies([b"undecided"])),), ()),
    Remember("queue:orders", ("id 1", "id 2")),
    Declare(3, "deleted", 1),
    Forget(3),
    Remove(1, ((3, 1), (5, 1))),
    Shut(),
]


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("keep_in_memory", [0, 1 << 20])
def test_a_store_of_an_earlier_version_is_recovered(name: str, keep_in_memory: int, tmp_path: Path) -> None:
    store = shutil.copytree(GOLDEN / name, tmp_path / "store")
    recovered = recover(store, Files(), keep_in_memory)
    state = state_of(recovered)
    assert state.names == {1: "orders", 2: "subscription"}
    assert state.options == {1: {}, 2: {"topic": "a.*"}}
    assert state.live == {1: {6: b"prepared"}, 2: {1: b"both", 2: b"committed"}}
    assert state.remembered == {"queue:orders": ["id 0", "id 1", "id 2"]}
    assert [*state.prepared] == ["xid b"]
    assert (recovered.lsn, recovered.torn, recovered.last_queue) == (len(RECORDS), 0, 3)
    assert (recovered.manifest is None) == (name == "before_manifest")


@pytest.mark.parametrize("name", STORES)
def test_the_encoder_writes_the_bytes_of_an_earlier_version(name: str) -> None:
    lsn = 0
    for number in range(1, 3 if name == "before_manifest" else 2):
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
