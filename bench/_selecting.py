"""Selectors over columns against selectors row by row: messages a second, as a ratio over four kinds of selectors.

Each selector passes 1 message in 100. A side goes through 1,048,576 messages, in batches of 4,096 as the broker sees
them: over the columns of a batch, or calling a function for each message, which is a dictionary without the
properties it does not have. That function is written by hand for the selector, so it is faster than anything that
plain Python could make of the text: no tree, no type to look at, and it stops at the first term that fails.
"""

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from _common import arguments, finish, interleaved, level, medians, ratio
from mqlab.broker.core.selectors import Selector, compile_selector

BATCH = 4096
# Distinct batches, more than any cache holds as dictionaries; gone through again and again.
BATCHES = 32
PASSES = 8
# Columns are so much faster that one pass would be over before the clock has moved.
COLUMN_PASSES = 5 * PASSES

# Any: pyarrow has no types, and a property has the type of its column.
Message = dict[str, Any]
Columns = dict[str, pa.Array]


class Case(NamedTuple):
    text: str
    passes: Callable[[Message], bool]


CASES = {
    # A string, a number that may be missing, a header field: the function of one message mostly stops at the string.
    "mixed": Case(
        "region = 'EU' AND price BETWEEN 90 AND 99 AND JMSPriority >= 4",
        lambda message: (
            message.get("region") == "EU" and (price := message.get("price")) is not None and 90 <= price <= 99
            and message["JMSPriority"] >= 4
        ),
    ),
    "number": Case("number < 1", lambda message: (number := message.get("number")) is not None and number < 1),
    "string": Case("name = 'name-7'", lambda message: message.get("name") == "name-7"),
    "pattern": Case("name LIKE '%-7'", lambda message: message.get("name", "").endswith("-7")),
}  # fmt: skip


def main() -> None:
    chosen = arguments(__doc__ or "")
    rounds = chosen.rounds or (5 if chosen.quick else 20)
    batches = [columns(seed) for seed in range(BATCHES)]
    messages = [rows(batch) for batch in batches]
    sides: dict[str, Callable[[], float]] = {}
    for name, case in CASES.items():
        selector = compile_selector(case.text)
        check(selector, case, batches, messages)
        sides[f"{name}_columns"] = partial(over_columns, selector, batches)
        sides[f"{name}_rows"] = partial(over_rows, case, messages)
    found = interleaved(sides, rounds)
    over = [value for name in CASES for value in found[f"{name}_columns"]]
    under = [value for name in CASES for value in found[f"{name}_rows"]]
    finish(
        columns_over_rows=ratio(over, under),
        **{f"columns_over_rows_{name}": ratio(found[f"{name}_columns"], found[f"{name}_rows"]) for name in CASES},
        microseconds_a_batch={str(size): level(few(batches[0], size, rounds)) for size in (1, 10, BATCH)},
        messages_per_second=medians(found),
    )


def columns(seed: int) -> Columns:
    """A tenth in the region, a tenth of the prices: chance makes 1 in 100 of both. One price in 20 is missing."""
    chance = np.random.default_rng(seed)
    regions = np.where(chance.random(BATCH) < 0.1, "EU", chance.choice(["US", "Asia", "Africa"], BATCH))
    return {
        "region": pa.array(regions.tolist(), pa.string()),
        "price": pa.array(chance.integers(0, 100, BATCH) / 1.0, mask=chance.random(BATCH) < 0.05),
        "JMSPriority": pa.array(chance.integers(4, 10, BATCH), pa.int8()),
        "number": pa.array(chance.integers(0, 100, BATCH), pa.int64()),
        "name": pa.array([f"name-{number}" for number in chance.integers(0, 100, BATCH)], pa.string()),
    }


def rows(batch: Columns) -> list[Message]:
    lists = {name: column.to_pylist() for name, column in batch.items()}
    return [
        {name: value for name, value in zip(lists, row, strict=True) if value is not None}
        for row in zip(*lists.values(), strict=True)
    ]


def check(selector: Selector, case: Case, batches: list[Columns], messages: list[list[Message]]) -> None:
    """Both sides select the same messages, about 1 in 100."""
    count = 0
    for batch, plain in zip(batches, messages, strict=True):
        mask = selector.mask(BATCH, batch).tolist()
        assert mask == [case.passes(message) for message in plain]
        count += sum(mask)
    assert 0.008 < count / BATCH / BATCHES < 0.012, count


def over_columns(selector: Selector, batches: list[Columns]) -> float:
    begin = perf_counter()
    for _ in range(COLUMN_PASSES):
        for batch in batches:
            selector.mask(BATCH, batch)
    return COLUMN_PASSES * BATCHES * BATCH / (perf_counter() - begin)


def over_rows(case: Case, messages: list[list[Message]]) -> float:
    passes = case.passes
    begin = perf_counter()
    for _ in range(PASSES):
        for plain in messages:
            [passes(message) for message in plain]
    return PASSES * BATCHES * BATCH / (perf_counter() - begin)


def few(batch: Columns, size: int, rounds: int) -> list[float]:
    """What one evaluation costs, in microseconds."""
    selector = compile_selector(CASES["mixed"].text)
    part = {name: column.slice(0, size) for name, column in batch.items()}
    found = []
    for _ in range(rounds):
        begin = perf_counter()
        for _ in range(1000):
            selector.mask(size, part)
        found.append((perf_counter() - begin) * 1e3)
    return found
