"""Joins runs of messages, each with bodies of one size, into one received batch."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from mqlab.drivers.api import ReceivedBatch
from mqlab.wire.native.payload import Bodies, equal_offsets


class MessageRun(Protocol):
    """`rows` bodies of one size, one after the other in `data`."""

    @property
    def rows(self) -> int: ...

    @property
    def data(self) -> bytes: ...

    @property
    def redelivered(self) -> bool: ...


def bodies_of_runs(runs: Sequence[MessageRun]) -> list[bytes]:
    """Each body by itself."""
    bodies = []
    for run in runs:
        size = len(run.data) // run.rows
        bodies += [run.data] if run.rows == 1 else [run.data[row * size : (row + 1) * size] for row in range(run.rows)]
    return bodies


def join_runs(runs: Sequence[MessageRun]) -> ReceivedBatch:
    """Join one or more runs, which are all redelivered or all not."""
    rows = [run.rows for run in runs]
    sizes = [len(run.data) // run.rows for run in runs]
    data = runs[0].data if len(runs) == 1 else b"".join([run.data for run in runs])
    if min(sizes) == max(sizes):
        offsets = equal_offsets(sum(rows), sizes[0])
    else:
        offsets = np.zeros(sum(rows) + 1, dtype=np.int32)
        np.cumsum(np.repeat(sizes, rows), out=offsets[1:])
    return ReceivedBatch(Bodies(np.frombuffer(data, np.uint8), offsets), runs[0].redelivered)
