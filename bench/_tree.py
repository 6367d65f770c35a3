"""Measures one work tree for `before_after.py`: a key a line on stdin, its rate a line on stdout.

It is started with a tree as its argument and measures with that tree's own package and benchmarks, so that both sides
of a comparison are whole: broker, client library, agents and the benchmark's points.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path

WARM_UP_SECONDS = 0.3
PLAIN = "plain"
STUDY_PASS, LATER_PASS = "study_pass", "later_pass"
SESSION = "session"


def second_pass(tree: Path, folder: str) -> float:
    """The rate of the second pass of a session, in a process of its own."""
    command = [sys.executable, __file__, str(tree), SESSION, folder]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(ended.stdout.split()[-1])


@cache
def warm_up_pass(folder: Path) -> None:
    study_pass(folder)


def study_pass(folder: Path) -> float:
    """Passes of the pipeline a second."""
    from mqlab.events.folder import RunFolder
    from mqlab.pipeline.measure import measure
    from mqlab.pipeline.session import spark_session

    spark, runs = spark_session(), RunFolder.open(folder)
    begin = time.perf_counter()
    measure(spark, runs)
    return 1 / (time.perf_counter() - begin)


@cache
def lab_rates(stack: ExitStack, seconds: float) -> Callable[[str], float]:
    """The rate of a key, in a lab that is started on the first call: older trees have passes, but not these points."""
    from _lab import Lab
    from ceiling import per_message
    from peers import AWAKE, OWN, WAITING, points

    point_of = points(seconds, WARM_UP_SECONDS)
    lab = stack.enter_context(Lab())
    lab.rate(point_of["A"], OWN)  # the broker is up, the agents have compiled what they need

    def rate(key: str) -> float:
        if key == PLAIN:
            return per_message(lab.running(OWN).address, seconds)
        return lab.rate(point_of[key], AWAKE if key in WAITING else OWN)

    return rate


def import_from(tree: Path) -> None:
    sys.path[:0] = [str(tree / "bench"), str(tree / "src")]
    import mqlab

    if not Path(mqlab.__file__).is_relative_to(tree):
        raise SystemExit(f"{tree}: its package is not the one that was imported: {mqlab.__file__}")


def serve(tree: Path, seconds: float) -> None:
    with ExitStack() as stack:
        for line in sys.stdin:
            key, _, folder = line.strip().partition(" ")
            if key == STUDY_PASS:
                rate = second_pass(tree, folder)
            elif key == LATER_PASS:
                warm_up_pass(Path(folder))
                rate = study_pass(Path(folder))
            else:
                rate = lab_rates(stack, seconds)(key)
            print(rate, flush=True)


def main() -> None:
    tree = Path(sys.argv[1]).resolve()
    import_from(tree)
    if sys.argv[2] == SESSION:
        rates = [study_pass(Path(sys.argv[3])) for _ in range(2)]
        print(rates[-1])
    else:
        serve(tree, float(sys.argv[2]))


if __name__ == "__main__":
    main()
