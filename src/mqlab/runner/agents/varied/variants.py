"""Bodies and properties that differ from message to message.

The number of a message, that of its producer and the seed of the point decide what it has. So a consumer knows the
length and every byte of each message that it gets, and all runs of a point have the same messages.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from mqlab.drivers.api import Integers, MessageHeaders, Properties, Texts
from mqlab.drivers.common.filler import ID_SIZE, filler
from mqlab.study import Point
from mqlab.study.load.body_files import AT_RANDOM, TEMPLATE, decode_body
from mqlab.study.load.property_values import PropertyValues, parse_property
from mqlab.study.load.sizes import SizeMix, parse_sizes
from mqlab.study.load.templates import Template, parse_template

_Numbers = npt.NDArray[np.uint64]
_Index = npt.NDArray[np.int64]

# The constants of SplitMix64.
_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST_MIX: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_MIX: Final = np.uint64(0x94D049BB133111EB)


def draw(seed: int, producer: int, seqs: _Numbers) -> npt.NDArray[np.float64]:
    """A number from 0 to below 1 for each message: the same for the same seed, producer and sequence number."""
    # The product wraps, as it must.
    key = _mix(np.array([seed], np.uint64) * _GAMMA + np.uint64(producer))
    mixed = _mix(_mix(seqs * _GAMMA + key) + key)
    return (mixed >> np.uint64(11)).astype(np.float64) * np.float64(2.0**-53)


def _mix(values: _Numbers) -> _Numbers:
    values = (values ^ (values >> np.uint64(30))) * _FIRST_MIX
    values = (values ^ (values >> np.uint64(27))) * _SECOND_MIX
    return values ^ (values >> np.uint64(31))


class BodyVariants(ABC):
    """The bytes of bodies behind their ids."""

    @abstractmethod
    def tails(self, producer: int, seqs: _Numbers) -> list[bytes]:
        """For each of these messages of a producer."""

    def tail(self, producer: int, seq: int) -> bytes:
        return self.tails(producer, sequence(seq, 1))[0]

    def total_size(self, producer: int, first_seq: int, count: int) -> int:
        """The bytes of consecutive messages, with their ids."""
        return count * ID_SIZE + sum(map(len, self.tails(producer, sequence(first_seq, count))))


class FillerVariants(BodyVariants):
    """Filler of different sizes."""

    def __init__(self, mix: SizeMix, seed: int) -> None:
        self._lengths = np.array(mix.sizes, np.int64) - ID_SIZE
        # Each filler is the beginning of the longest one.
        self._filler = filler(max(mix.sizes)).tobytes()
        self._bounds = np.cumsum(mix.shares)[:-1]
        self._seed = seed

    def tails(self, producer: int, seqs: _Numbers) -> list[bytes]:
        return [self._filler[:length] for length in self._chosen(producer, seqs).tolist()]

    def total_size(self, producer: int, first_seq: int, count: int) -> int:
        return count * ID_SIZE + int(self._chosen(producer, sequence(first_seq, count)).sum())

    def _chosen(self, producer: int, seqs: _Numbers) -> _Index:
        chosen: _Index = self._lengths[np.searchsorted(self._bounds, draw(self._seed, producer, seqs), side="right")]
        return chosen


class FileVariants(BodyVariants):
    """Contents of files, one after the other or at random."""

    def __init__(self, contents: Sequence[bytes], seed: int | None) -> None:
        """`seed`: None, if they come one after the other."""
        self._contents = contents
        self._seed = seed

    def tails(self, producer: int, seqs: _Numbers) -> list[bytes]:
        count = len(self._contents)
        if self._seed is None:
            return [self._contents[seq % count] for seq in seqs.tolist()]
        return [self._contents[int(drawn * count)] for drawn in draw(self._seed, producer, seqs).tolist()]


class TemplateVariants(BodyVariants):
    def __init__(self, template: Template, seed: int) -> None:
        self._template = template
        self._seed = seed

    def tails(self, producer: int, seqs: _Numbers) -> list[bytes]:
        # Each field draws for itself.
        seeds = range(self._seed, self._seed + len(self._template.fields))
        drawn = np.array([draw(seed, producer, seqs) for seed in seeds]).reshape(len(seeds), len(seqs))
        return [self._template.render(seq, row) for seq, row in zip(seqs.tolist(), drawn.T.tolist(), strict=True)]


def sequence(first_seq: int, count: int) -> _Numbers:
    return np.arange(first_seq, first_seq + count, dtype=np.uint64)


def body_variants(point: Point) -> BodyVariants | None:
    """None if the bodies of the point differ in their id only."""
    return _body_variants(point.sizes, point.body, point.contents, point.seed) if point.has_varied_bodies else None


@lru_cache(maxsize=4)
def _body_variants(sizes: str, body: str, contents: tuple[str, ...], seed: int) -> BodyVariants:
    if not contents:
        return FillerVariants(parse_sizes(sizes), seed)
    decoded = [*map(decode_body, contents)]
    if body.startswith(TEMPLATE):
        return TemplateVariants(parse_template(decoded[0].decode()), seed)
    return FileVariants(decoded, seed if body.endswith(AT_RANDOM) else None)


class PropertyColumns:
    """The properties of messages of a point, as a driver takes them."""

    def __init__(self, point: Point) -> None:
        # Each property draws for itself.
        self._columns = {
            name: _Column(parse_property(text), point.seed + number)
            for number, (name, text) in enumerate(point.properties.items(), 1)
        }

    def of(self, producer: int, first_seq: int, count: int) -> Properties:
        seqs = sequence(first_seq, count)
        return {name: column.of(producer, seqs) for name, column in self._columns.items()}


class HeaderColumns:
    """The headers of messages of a point, as a driver takes them."""

    def __init__(self, point: Point) -> None:
        self._priorities = _Column(parse_property(point.priority), point.seed - 1) if point.priority else None
        self._keys = _Column(parse_property(point.key), point.seed - 2) if point.key else None
        self._expires_s = point.expires or None

    def of(self, producer: int, first_seq: int, count: int) -> MessageHeaders:
        seqs = sequence(first_seq, count)
        priorities = None if self._priorities is None else self._priorities.numbers(producer, seqs)
        return MessageHeaders(
            priorities, self._expires_s, None if self._keys is None else self._keys.texts(producer, seqs)
        )


class _Column:
    def __init__(self, values: PropertyValues, seed: int) -> None:
        self._seed = seed % 2**63
        self._in_turn = values.in_turn
        self._count = len(values.values)
        # A range may be too long for an array.
        self._range = values.values if isinstance(values.values, range) else None
        self._values = np.array(values.values if self._range is None else ())
        # The sum of the shares up to each value; None: all have the same.
        self._bounds = _bounds(values)

    def of(self, producer: int, seqs: _Numbers) -> Integers | Texts:
        is_text = self._values.dtype.kind == "U"
        return self.texts(producer, seqs) if is_text else self.numbers(producer, seqs)

    def numbers(self, producer: int, seqs: _Numbers) -> Integers:
        places = self._places(producer, seqs)
        return (self._values[places] if self._range is None else self._range.start + places).astype(np.int32)

    def texts(self, producer: int, seqs: _Numbers) -> Texts:
        places = self._places(producer, seqs)
        return (self._values[places] if self._range is None else self._range.start + places).astype(np.str_)

    def _places(self, producer: int, seqs: _Numbers) -> _Index:
        if self._in_turn:
            return (seqs % np.uint64(self._count)).astype(np.int64)
        drawn = draw(self._seed, producer, seqs)
        if self._bounds is None:
            return (drawn * self._count).astype(np.int64)
        return np.searchsorted(self._bounds, drawn, side="right")


def _bounds(values: PropertyValues) -> npt.NDArray[np.float64] | None:
    if not values.skew and not values.shares:
        return None
    weights = values.shares or np.arange(1, len(values.values) + 1, dtype=np.float64) ** -values.skew
    bounds: npt.NDArray[np.float64] = (np.cumsum(weights) / np.sum(weights))[:-1]
    return bounds
