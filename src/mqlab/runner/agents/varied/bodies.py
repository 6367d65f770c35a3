"""Making and checking bodies of different sizes or contents; bodies.py has the fast way for those of one size."""

import struct
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import groupby
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from mqlab.drivers import Sender
from mqlab.drivers.api import Matrix, MessageHeaders, Properties
from mqlab.drivers.common.filler import ID_SIZE
from mqlab.runner.agents.bodies import BodyCheck, BodyMaker
from mqlab.runner.agents.varied.variants import BodyVariants, body_variants
from mqlab.study import Point
from mqlab.wire.native.bodies import Bodies

_ID: Final = struct.Struct("<IQ")
_IDS: Final = np.dtype([("producer", "<u4"), ("seq", "<u8")])


class SingleMaker(Protocol):
    """Makes the bodies of a role that sends message by message."""

    def make_single(self, seq: int) -> bytes: ...

    def make_reply(self, seq: int, request: bytes) -> bytes: ...


class Check(Protocol):
    """Compares received bodies with those that were sent, as BodyCheck does."""

    def find_damaged(self, bodies: Bodies) -> npt.NDArray[np.bool_] | None: ...

    def find_damaged_of(self, bodies: Sequence[bytes]) -> npt.NDArray[np.bool_] | None: ...

    def is_damaged_reply(self, reply: bytes) -> bool: ...


def single_maker(producer: int, point: Point) -> SingleMaker:
    variants = body_variants(point)
    return BodyMaker(producer, point.size, 1) if variants is None else VariedMaker(producer, variants)


def body_check(point: Point) -> Check:
    variants = body_variants(point)
    return BodyCheck(point.size) if variants is None else VariedCheck(variants)


class VariedMaker:
    """Makes the bodies of one producer."""

    def __init__(self, producer: int, variants: BodyVariants) -> None:
        self._producer = producer
        self._variants = variants

    def make_single(self, seq: int) -> bytes:
        return _ID.pack(self._producer, seq) + self._tail(seq)

    def make_reply(self, seq: int, request: bytes) -> bytes:
        return _ID.pack(self._producer, seq) + request[:ID_SIZE] + self._tail(seq)[ID_SIZE:]

    def sender(self, sender: Sender) -> Callable[..., Awaitable[None]]:
        """The method `send` for bodies that are ids only: the sender gets each with the rest of its body."""

        async def send(
            ids: Matrix, *, wait: bool, properties: Properties | None = None, headers: MessageHeaders | None = None
        ) -> None:
            for begin, bodies in self._equal_sizes(ids):
                end = begin + len(bodies)
                own = {name: values[begin:end] for name, values in properties.items()} if properties else None
                if headers is None:
                    await sender.send(bodies, wait=wait, properties=own)
                else:
                    await sender.send(bodies, wait=wait, properties=own, headers=headers.rows(begin, end))

        return send

    def _equal_sizes(self, ids: Matrix) -> Iterator[tuple[int, Matrix]]:
        """The bodies: a matrix for each group of consecutive ones of the same size, and the place of its first."""
        seqs = np.ascontiguousarray(ids[:, 4:]).view("<u8").reshape(-1)
        tails = self._variants.tails(self._producer, seqs)
        begin = 0
        for size, group in groupby(tails, len):
            bodies = [ids[row].tobytes() + tail for row, tail in enumerate(group, begin)]
            yield begin, np.frombuffer(b"".join(bodies), np.uint8).reshape(len(bodies), ID_SIZE + size)
            begin += len(bodies)

    def _tail(self, seq: int) -> bytes:
        return self._variants.tail(self._producer, seq)


class VariedCheck:
    """Compares received bodies with those that a VariedMaker makes: their length and every byte behind the ids."""

    def __init__(self, variants: BodyVariants) -> None:
        self._variants = variants

    def find_damaged(self, bodies: Bodies) -> npt.NDArray[np.bool_] | None:
        """A flag for each body, set if it differs; None if no body differs."""
        return self.find_damaged_of(bodies.tolist())

    def find_damaged_of(self, bodies: Sequence[bytes]) -> npt.NDArray[np.bool_] | None:
        """The same, body by body."""
        ids = np.frombuffer(b"".join([body[:ID_SIZE] for body in bodies]), _IDS)
        damaged = np.zeros(len(bodies), np.bool_)
        for producer in np.unique(ids["producer"]).tolist():
            rows = np.flatnonzero(ids["producer"] == producer)
            tails = self._variants.tails(producer, ids["seq"][rows])
            damaged[rows] = [bodies[row][ID_SIZE:] != tail for row, tail in zip(rows.tolist(), tails, strict=True)]
        return damaged if damaged.any() else None

    def is_damaged_reply(self, reply: bytes) -> bool:
        tail = self._variants.tail(*_ID.unpack_from(reply))
        return reply[2 * ID_SIZE :] != tail[ID_SIZE:] or len(reply) != ID_SIZE + len(tail)
