"""Receive buffers are used again, but never while a view of them exists."""

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pytest

from mqlab.wire import receive_buffers
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import COLUMNS, Payload, decode, encode, select_rows
from mqlab.wire.native.columns import column as wire_column
from mqlab.wire.native.columns import encode_columns
from mqlab.wire.native.frames import FORM, FrameDecoder, Kind
from mqlab.wire.receive_buffers import receive_buffer


def stream(chance: random.Random, count: int) -> tuple[bytes, list[list[bytes]]]:
    """Frames of batches, most of them small, some larger than a chunk of the receiver."""
    sent, data = [], []
    for _ in range(count):
        rows = chance.choice((1, 2, 5))
        body = chance.randbytes(8) * chance.choice((1, 10, 100, 3_000, 12_000))
        bodies = [bytes([row]) + body for row in range(rows)]
        more = numbered(rows) if chance.random() < 0.5 else {}
        payload = encode_columns(pa.array(bodies, pa.binary()), more) if more else encode(bodies)
        sent.append(bodies)
        head = native.header(Kind.SEND, flags=payload.form, amount=rows, length=len(payload.data))
        data.append(head + bytes(payload.data))
    return b"".join(data), sent


def numbered(rows: int) -> dict[str, pa.Array]:
    return {".number": pa.array(range(rows), pa.int64()), "type": pa.array([f"type {row}" for row in range(rows)])}


Kept = TypeVar("Kept")
# Holds the only reference to what is kept, and says whether it is unchanged.
Look = Callable[[], bool]


def look(kept: Kept, is_unchanged: Callable[[Kept], bool]) -> Look:
    return partial(is_unchanged, kept)


def looks(chance: random.Random, payload: Payload) -> Look:
    """Keep an object that refers to the received memory in one of the ways of broker and client."""
    bodies, last = decode(payload), range(payload.rows - 1, payload.rows)
    expected, was = bodies.tolist(), bodies.data.tobytes()
    ways: dict[str, Look] = {
        "payload": look(payload, lambda kept: decode(kept).tolist() == expected),
        "view": look(payload.data, lambda kept: decode(Payload(kept, payload.rows, payload.form)).tolist() == expected),
        "numpy": look(bodies.data, lambda kept: kept.tobytes() == was),
        "row": look(bodies.data[3:7], lambda kept: kept.tobytes() == was[3:7]),
        "column": look(bodies.column(), lambda kept: kept.to_pylist() == expected),
        "cut": look(select_rows(payload, last), lambda kept: decode(kept).tolist() == expected[-1:]),
    }
    if payload.form & COLUMNS:
        types = numbered(payload.rows)["type"]
        ways["type"] = look(wire_column(payload, "type"), lambda kept: kept is not None and bool(kept.equals(types)))
    return ways[chance.choice(sorted(ways))]


def receive(seed: int, faults: list[str]) -> None:
    """Keep some of what comes for a while, and see whether it stays what it was."""
    chance = random.Random(seed)
    data, sent = stream(chance, 400)
    receiver, kept, at, number = FrameDecoder(1 << 20), [], 0, 0
    while at < len(data):
        size = chance.choice((100, 5_000, 60_000, 200_000))
        for frame in receiver.feed(data[at : at + size]):
            payload = Payload(frame.payload, frame.amount, frame.flags & FORM)
            if decode(payload).tolist() != sent[number]:
                faults.append(f"frame {number} came wrong")
            number += 1
            if chance.random() < 0.3:
                kept.append(looks(chance, payload))
            del payload, frame
        chance.shuffle(kept)
        while len(kept) > 20:
            is_unchanged = kept.pop()
            if not is_unchanged():
                faults.append("memory was used again while it was looked at")
        at += size
    if number != len(sent) or not all(is_unchanged() for is_unchanged in kept):
        faults.append("something is missing, or changed")


def test_what_is_kept_stays_what_it_was() -> None:
    faults: list[str] = []
    for seed in range(15):
        receive(seed, faults)
    assert faults == []


def test_threads_do_not_get_the_same_memory() -> None:
    """Each plain connection reads in a thread of its own."""
    faults: list[str] = []
    threads = [threading.Thread(target=receive, args=(seed, faults)) for seed in range(100, 104)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def address(view: memoryview) -> int:
    return np.frombuffer(view, dtype=np.uint8).ctypes.data


def test_memory_is_used_again_when_nobody_looks() -> None:
    view = receive_buffer(64 * 1024)
    where = address(view)
    del view
    assert address(receive_buffer(64 * 1024)) == where


@pytest.mark.parametrize(
    "look", [lambda view: view, lambda view: view[5:6], lambda view: np.frombuffer(view, np.uint8)]
)
def test_memory_is_not_used_again_while_somebody_looks(look: Callable[[memoryview], object]) -> None:
    view = receive_buffer(64 * 1024)
    where = address(view)
    kept = look(view)
    del view
    others = [receive_buffer(64 * 1024) for _ in range(50)]
    assert where not in map(address, others)
    del kept


def test_a_large_frame_is_moved_once_however_many_reads_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def counted(size: int) -> memoryview:
        taken.append(size)
        return receive_buffer(size)

    monkeypatch.setattr("mqlab.wire.native.frames.receive_buffer", counted)
    size = 4 * 1024 * 1024
    receiver = FrameDecoder(size)
    data = memoryview(native.header(Kind.SEND, length=size) + bytes(size))
    frames = [frame for at in range(0, len(data), 10_000) for frame in receiver.feed(data[at : at + 10_000])]
    assert len(frames) == 1
    assert len(taken) <= 4
    assert sum(taken) < 2 * size


def test_there_is_always_room() -> None:
    """A transport cannot read into nothing."""
    chance = random.Random(5)
    data, sent = stream(chance, 300)
    receiver, at, frames = FrameDecoder(1 << 20), 0, 0
    while at < len(data):
        room = receiver.get_buffer()
        assert len(room) > 0
        size = min(chance.choice((1, 24, 4096, len(room))), len(room), len(data) - at)
        room[:size] = data[at : at + size]
        at += size
        frames += len(receiver.buffer_updated(size))
    assert frames == len(sent)


def test_what_is_kept_is_bounded_whatever_sizes_peers_choose() -> None:
    held = []
    for size in range(1, 40):
        held += [receive_buffer(size * 64 * 1024) for _ in range(8)]
    kept = sum(size * len(buffers) for size, buffers in receive_buffers._pool.items())
    assert kept <= receive_buffers._MAX_POOL_BYTES
    assert len({np.frombuffer(memoryview(view.obj), np.uint8).ctypes.data for view in held}) == len(held)
