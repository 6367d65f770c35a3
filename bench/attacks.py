"""What one hostile client costs others: this work tree's broker against an older one, attack by attack.

OLD is the folder of another checkout (`git worktree add ../before COMMIT`). For each attack, `grown_mb` is what the
broker's memory grew by, and `longest_wait_ms` the longest that a well-behaved client waited for its own message
meanwhile; 60,000 stands for "for ever". The attacks: transactions that are never ended, temporary queues, receives by
id that wait, questions whose answers nobody reads, lists of many queues asked for in one write, and noise before a
login. The keys are the new broker over the old one, where less is better.
"""

import asyncio
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import psutil

from _common import HERE, arguments, finish, ratio, say
from mqlab.client import aio
from mqlab.client.errors import MessagingError
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import encode_equal
from mqlab.wire.native.frames import Kind

PATIENCE_SECONDS = 60.0
NOISE_BYTES = 65_537
spawn = multiprocessing.get_context("spawn")


def _ask(count: int, **question: object) -> bytes:
    return b"".join(native.frame(Kind.ASK, question, first=number) for number in range(1, count + 1))


def _open(kind: Kind, link: int, destination: str, session: int = 1) -> bytes:
    return native.frame(kind, {"destination": destination}, session=session, link=link)


def transactions(size: int) -> Iterator[bytes]:
    """A hundred open transactions, each with messages of 60,000 bytes."""
    payload = encode_equal(np.zeros(60_000, dtype=np.uint8), 1)
    for number in range(1, 101):
        yield native.frame(Kind.OPEN_SESSION, {"transacted": True}, session=number)
        yield _open(Kind.OPEN_PRODUCER, number, "queue:transactions", session=number)
    for first in range(1, size // 4 + 1):
        for number in range(1, 101):
            yield native.header(
                Kind.SEND, session=number, link=number, first=first, amount=1, length=len(payload.data),
                flags=payload.form,
            ) + bytes(payload.data)  # fmt: skip


def temporaries(size: int) -> Iterator[bytes]:
    for _ in range(size):
        yield _ask(100, ask="temporary")


def receives(size: int) -> Iterator[bytes]:
    yield native.frame(Kind.OPEN_SESSION, {}, session=1) + _open(Kind.OPEN_CONSUMER, 1, "queue:receives")
    for number in range(size * 300):
        yield native.header(Kind.RECEIVE, session=1, link=1, length=20) + b"%020d" % number


def unread(size: int) -> Iterator[bytes]:
    for _ in range(size):
        yield _ask(200, ask="status")


def lists(size: int) -> Iterator[bytes]:
    yield native.frame(Kind.OPEN_SESSION, {}, session=1)
    yield from (_open(Kind.OPEN_PRODUCER, number, f"queue:list.{number}") for number in range(1, 4 * size))
    yield _ask(64 * 1024 // 40, ask="list")


def noise(size: int) -> Iterator[bytes]:  # noqa: ARG001 - like the others
    yield b"\xff" * NOISE_BYTES


ATTACKS = (transactions, temporaries, receives, unread, lists, noise)


def attack(name: str, path: str, size: int, begins: Event) -> None:
    """In a process of its own, until that is ended."""

    async def run() -> None:
        reader, writer = await asyncio.open_unix_connection(path)
        if name != noise.__name__:
            writer.write(native.frame(Kind.HELLO, {"version": native.VERSION}))
            await reader.read(4096)
        begins.set()
        reading = None if name == unread.__name__ else asyncio.ensure_future(_read_on(reader))
        for data in next(one for one in ATTACKS if one.__name__ == name)(size):
            writer.write(data)
            await writer.drain()
        await asyncio.sleep(PATIENCE_SECONDS)
        del reading

    with suppress(OSError):
        asyncio.run(run())


async def _read_on(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 20):
        pass


@contextmanager
def broker(tree: Path, folder: Path) -> Iterator[tuple[psutil.Process, str]]:
    """A broker of a work tree, and its socket's path."""
    path = folder / "socket"
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    command = [sys.executable, "-m", "mqlab", "broker", f"--listen=unix:{path}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it listens
            yield psutil.Process(process.pid), str(path)
        finally:
            # One that hangs does not hear a friendlier signal.
            process.kill()


async def _wait_while_attacked(path: str, process: psutil.Process, seconds: float) -> tuple[float, float]:
    """Bytes that the broker grew by, and the seconds of the longest wait."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        session = await (await aio.connect(f"unix:{path}")).session()
        producer, consumer = await session.producer("queue:others"), await session.consumer("queue:others")
    idle, peak, longest = process.memory_info().rss, 0, 0.0
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        began = time.monotonic()
        with suppress(TimeoutError, MessagingError):
            await asyncio.wait_for(producer.send(b"x"), PATIENCE_SECONDS)
            await consumer.receive(PATIENCE_SECONDS)
        longest = max(longest, time.monotonic() - began)
        peak = max(peak, process.memory_info().rss)
        await asyncio.sleep(0.005)
    return float(max(peak - idle, 1)), longest


def measured(tree: Path, name: str, size: int, seconds: float) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="mqlab-attacks-") as folder, broker(tree, Path(folder)) as (process, path):
        begins = spawn.Event()
        attacker = spawn.Process(target=attack, args=(name, path, size, begins))
        attacker.start()
        try:
            if not begins.wait(PATIENCE_SECONDS):
                raise SystemExit(f"{name}: the attacker cannot begin")
            return asyncio.run(_wait_while_attacked(path, process, seconds))
        except TimeoutError:
            return 1.0, PATIENCE_SECONDS
        finally:
            attacker.kill()
            attacker.join()


def _worst(rows: list[tuple[float, float]]) -> dict[str, int]:
    grown, longest = (max(column) for column in zip(*rows, strict=True))
    return {"grown_mb": round(grown / 1e6), "longest_wait_ms": round(longest * 1000)}


def main() -> None:
    options = arguments(__doc__ or "", other_tree=True, attack="only this one")
    size, seconds = (10, 0.5) if options.smoke else (200, 3.0) if options.quick else (1000, 15.0)
    names = options.attack or [one.__name__ for one in ((receives, noise) if options.smoke else ATTACKS)]
    results: dict[str, object] = {}
    for name in names:
        figures: dict[str, list[tuple[float, float]]] = {"old": [], "new": []}
        for number in range(options.rounds or (1 if options.quick else 3)):
            for side in ("old", "new") if number % 2 else ("new", "old"):
                figures[side].append(measured(options.old.resolve() if side == "old" else HERE, name, size, seconds))
                grown, longest = figures[side][-1]
                say(f"{name} {side}: grew {grown / 1e6:,.0f} MB, longest wait {longest * 1000:,.0f} ms")
        for at, key in enumerate(("grown", "wait")):
            results[f"{name}_{key}"] = ratio([one[at] for one in figures["new"]], [one[at] for one in figures["old"]])
        results[name] = {side: _worst(rows) for side, rows in figures.items()}
    finish(**results)


if __name__ == "__main__":
    main()
