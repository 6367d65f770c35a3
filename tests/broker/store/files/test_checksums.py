"""Checksums of many pieces at once are those of each piece."""

import random

import google_crc32c
import numpy as np

from mqlab.broker.store.files.checksums import checksums

LENGTHS = (0, 1, 2, 45, 56, 319, 320, 321, 1023, 1024, 3000)


def test_pieces_of_any_length_and_number() -> None:
    chance = random.Random(5)
    data = chance.randbytes(60_000)
    # Few of some lengths and many of others are done in different ways.
    chosen = [length for length in LENGTHS for _ in range(chance.choice((3, 400)))] + [56] * 40_000
    chance.shuffle(chosen)
    begins = [chance.randrange(len(data) - length + 1) for length in chosen]
    ends = [begin + length for begin, length in zip(begins, chosen, strict=True)]
    found = checksums(data, np.frombuffer(data, dtype=np.uint8), np.array(begins), np.array(ends))
    assert found.tolist() == [google_crc32c.value(data[one:two]) for one, two in zip(begins, ends, strict=True)]
