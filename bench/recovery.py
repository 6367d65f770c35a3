"""How fast recovery reads a journal: MB/s, beside a plain read of the same files.

recovery_over_read: recovery over reading and nothing else (1 is: the checks and the messages cost nothing), for a
journal of which half is batches of 256 small messages and half is single messages of 1 KiB. Half of them are consumed.
Beside it each kind alone, and single messages of 12 bytes: there headers make up four fifths of the journal.
"""

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from _common import arguments, finish, interleaved, medians, ratio, say
from mqlab.broker.core.durability.records import Declare, Put, Record, Remove
from mqlab.broker.store.encoding import encode, encode_file_header
from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.recovery.recovery import recover
from mqlab.broker.store.segments import segment_path
from mqlab.wire.native.bodies import SINGLE, Payload
from mqlab.wire.native.bodies import encode as encode_bodies

MB: Final = 1_000_000
FILE: Final = 64 * 1024 * 1024
KEEP_IN_MEMORY: Final = 1024 * 1024 * 1024
QUEUES: Final = range(1, 5)

BATCH: Final = encode_bodies([os.urandom(100)] * 256)
KIB: Final = Payload(os.urandom(1024), 1, SINGLE)
TINY: Final = Payload(os.urandom(12), 1, SINGLE)
# What is sent to each queue in turn.
KINDS: Final = {"mixed": [BATCH] + [KIB] * 26, "batches": [BATCH], "single_1024": [KIB], "single_12": [TINY]}


def records(payloads: list[Payload]) -> Iterator[Record]:
    """Every second message or batch is consumed soon after it was sent."""
    first_id, number = 1, 0
    while True:
        payload = payloads[number % len(payloads)]
        yield from (Put(((queue, first_id),), payload) for queue in QUEUES)
        if number % 2:
            yield from (Remove(queue, ((first_id, payload.rows),)) for queue in QUEUES)
        first_id += payload.rows
        number += 1


def write_journal(folder: Path, payloads: list[Payload], least: int) -> int:
    """A journal of at least so many bytes, on disk, as a broker leaves it; returns its bytes."""
    queues = [Declare(number, f"orders.{number}", 1) for number in QUEUES]
    source, written, lsn, number = records(payloads), 0, 0, 0
    while written < least:
        number += 1
        data = bytearray(encode_file_header(number, lsn + 1, queues, [], len(QUEUES)))
        while len(data) < min(FILE, least - written):
            lsn += 1
            data += encode(next(source), lsn, max(0, lsn - 10))
        segment_path(folder, number).write_bytes(data)
        Files().sync_path(segment_path(folder, number))
        written += len(data)
    return written


def rate(folder: Path, size: int, work: Callable[[Path], None]) -> float:
    begin = time.perf_counter()
    work(folder)
    return size / MB / (time.perf_counter() - begin)


def read(folder: Path) -> None:
    for path in folder.iterdir():
        path.read_bytes()


def read_and_recover(folder: Path) -> None:
    found = recover(folder, Files(), KEEP_IN_MEMORY)
    assert all(queue.spans() for queue in found.queues.values())


def main() -> None:
    chosen = arguments(__doc__ or "")
    least = 4 * MB if chosen.smoke else 200 * MB if chosen.quick else 500 * MB
    found: dict[str, list[float]] = {}
    for name, payloads in KINDS.items():
        with TemporaryDirectory(prefix="mqlab-bench-") as made:
            folder = Path(made)
            size = write_journal(folder, payloads, least // 8 if name == "single_12" else least)
            say(f"{name}: a journal of {size / MB:,.0f} MB; the rates are MB/s")
            sides = {
                name: partial(rate, folder, size, read_and_recover), f"{name}_read": partial(rate, folder, size, read),
            }  # fmt: skip
            found |= interleaved(sides, chosen.rounds or (3 if chosen.quick else 7))
    finish(
        recovery_over_read=ratio(found["mixed"], found["mixed_read"]),
        recovery_MB_per_second={name: medians(found)[name] for name in KINDS},
        read_MB_per_second={name: medians(found)[f"{name}_read"] for name in KINDS},
    )


if __name__ == "__main__":
    main()
