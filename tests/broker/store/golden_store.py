"""A store with every kind of record, as this version writes it.

`python -m tests.broker.store.golden_store NAME` adds it to the golden stores, after a change of the format.
"""

import sys
from pathlib import Path

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
from mqlab.broker.store.manifest import Manifest, ManifestFile
from mqlab.broker.store.segments import segment_path
from mqlab.wire.native.bodies import SINGLE, Payload
from mqlab.wire.native.bodies import encode as encode_bodies

GOLDEN = Path(__file__).parent / "golden"
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


def write_store(folder: Path) -> None:
    folder.mkdir()
    manifest = Manifest()
    ManifestFile(folder, Files(), manifest).close()
    header = encode_file_header(1, 1, [], [Remember("queue:orders", ("id 0",))], 0, manifest.store)
    records = [encode(record, lsn, lsn - 1) for lsn, record in enumerate(RECORDS, start=1)]
    segment_path(folder, 1).write_bytes(b"".join((header, *records)))


if __name__ == "__main__":
    write_store(GOLDEN / sys.argv[1])
