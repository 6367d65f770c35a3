"""How soon the broker of a test is ready (docs/testing.md): the median of its starts, in milliseconds.

A start is what the fixture `mqlab_broker` does: from the call until clients can connect, after the first import.
`ready_thread_ms`: in a thread of the test's process. `ready_process_ms`: in a process of its own. A round is one start
of each; the goal is a median below 50.
"""

import time
from functools import partial
from statistics import median, quantiles

from mqlab.testing import running_broker

GOAL_MS = 50
_LEAST_FOR_QUANTILES = 2


def start_ms(*, process: bool) -> float:
    began = time.perf_counter()
    with running_broker(process=process):
        return 1000 * (time.perf_counter() - began)


def figures(starts_ms: list[float]) -> dict[str, float | int | None]:
    """The median, and the tenth of the starts that was slower than `p90`."""
    slow = quantiles(starts_ms, n=10)[-1] if len(starts_ms) >= _LEAST_FOR_QUANTILES else None
    return {
        "median": round(median(starts_ms), 1), "p90": None if slow is None else round(slow, 1),
        "starts": len(starts_ms),
    }  # fmt: skip


def main() -> None:
    # Here, since a broker in a process of its own imports this file: so does one of a small test program.
    from _common import arguments, finish, interleaved

    options = arguments(__doc__, "20 rounds instead of 100")
    rounds = options.rounds or (20 if options.quick else 100)
    sides = {"thread": partial(start_ms, process=False), "process": partial(start_ms, process=True)}
    for process in (False, True):
        start_ms(process=process)  # the first import
    found = interleaved(sides, rounds)
    finish(
        ready_thread_ms=figures(found["thread"]), ready_process_ms=figures(found["process"]), goal_ms=GOAL_MS,
    )  # fmt: skip


if __name__ == "__main__":
    main()
