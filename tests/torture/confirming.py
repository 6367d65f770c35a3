"""Proves that each confirmation comes after the sync of what it confirms, for every message of a run:

python tests/torture/confirming.py --messages 1000000

A broker process notes every call of its file layer with its times; the journal says at which byte each message lies;
producers note when each message was confirmed to them. All three use one clock. No confirmation may come before the
end of a sync that began after the message was written.
"""

import argparse
import asyncio
import json
import random
import struct
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

import uvloop

from mqlab.broker.core.durability.records import Commit, Put
from mqlab.broker.store.recovery.decoding import decode, decode_file_header
from mqlab.client import aio
from mqlab.wire.native.bodies import decode as decode_bodies
from mqlab.wire.native.bodies import encode

HEAD = struct.Struct("<IQ")
PRODUCERS = 20
# When a message was confirmed, by producer and number.
Confirmed = dict[tuple[int, int], int]


async def produce(address: str, number: int, count: int, confirmed: Confirmed) -> None:
    """Batches of all sizes; every second producer commits transactions of some of them."""
    chance, transacted = random.Random(number), number % 2 == 1
    async with await aio.connect(address) as connection:
        session = await connection.session("transacted" if transacted else "auto")
        producer = await session.producer(f"queue:{number % 4}")
        sent = told = 0
        while told < count:
            rows = min(chance.choice((1, 3, 40, 200)), count - sent)
            if rows:
                payload = encode([HEAD.pack(number, sent + row) for row in range(rows)])
                await producer.send_batch(payload, persistent=True, confirm=not transacted)
                sent += rows
            if transacted and sent < count and chance.random() < 0.5:
                continue
            if transacted:
                await session.commit()
            now = time.monotonic_ns()
            confirmed.update(((number, one), now) for one in range(told, sent))
            told = sent


async def run(folder: Path, messages: int) -> Confirmed:
    address = f"unix:{folder / 'socket'}"
    options = {
        "data": folder / "data", "listen": address, "file-trace": folder / "trace", "queue-limit": 1 << 40,
        "log-length": 1 << 40, "segment-size": 1 << 20,
    }  # fmt: skip
    arguments = [f"--{name}={value}" for name, value in options.items()]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mqlab", "broker", *arguments, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert (await process.stdout.readline()).startswith(b"listening on")
        confirmed: Confirmed = {}
        share = -(-messages // PRODUCERS)
        await asyncio.gather(*(produce(address, number, share, confirmed) for number in range(PRODUCERS)))
    finally:
        process.terminate()
        code = await process.wait()
    assert code == 0
    return confirmed


class Trace:
    """When each byte of a journal file was safe."""

    def __init__(self, calls: list[tuple[str, int, int, int, int]]) -> None:
        self._appends = [(offset + size, end) for what, _, end, offset, size in calls if what == "append"]
        self._syncs = sorted((begin, end, size) for what, begin, end, _, size in calls if what == "sync")

    def safe_at(self, byte: int) -> int | None:
        """The end of the first sync that began after this byte was written; None: there was none."""
        written = self._appends[bisect_left(self._appends, (byte, 0))][1]
        for begin, end, covered in self._syncs[bisect_left(self._syncs, (written, 0, 0)) :]:
            if begin >= written and covered >= byte:
                return end
        return None


def traces(path: Path) -> dict[str, Trace]:
    calls: dict[str, list[tuple[str, int, int, int, int]]] = {}
    with path.open() as lines:
        for line in lines:
            what, name, *numbers = line.split()
            begin, end, offset, size = map(int, numbers)
            calls.setdefault(name, []).append((what, begin, end, offset, size))
    return {name: Trace(found) for name, found in calls.items()}


def put_in(journal: Path) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """For each record with messages: the byte where it ends, and which messages they are."""
    data = journal.read_bytes()
    at = decode_file_header(data).size
    while at < len(data):
        read = decode(data, at)
        at = read.end
        said = read.record.puts if isinstance(read.record, Commit) else (read.record,)
        puts = [put for put in said if isinstance(put, Put)]
        bodies = [body for put in puts for body in decode_bodies(put.payload).tolist()]
        if bodies:
            yield at, [HEAD.unpack(body) for body in bodies]


def prove(folder: Path, confirmed: Confirmed) -> dict[str, int]:
    """How many confirmations there were, and how many came too early or for nothing."""
    traced = traces(folder / "trace")
    left, early = dict(confirmed), 0
    for journal in sorted((folder / "data").glob("journal-*")):
        for end, messages in put_in(journal):
            safe = traced[journal.name].safe_at(end)
            for message in messages:
                told = left.pop(message, None)
                early += told is not None and (safe is None or told < safe)
    return {"confirmed": len(confirmed), "before_their_sync": early, "not_in_the_journal": len(left)}


def measure(messages: int) -> dict[str, int]:
    with tempfile.TemporaryDirectory(prefix="mqlab-confirming-") as folder:
        confirmed = uvloop.run(run(Path(folder), messages))
        return prove(Path(folder), confirmed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=50_000, help="confirmed messages (50000)")
    found = measure(parser.parse_args().messages)
    print(json.dumps(found))
    return 1 if found["before_their_sync"] or found["not_in_the_journal"] else 0


if __name__ == "__main__":
    sys.exit(main())
