"""Measures one work tree for `before_after.py`: a key a line on stdin, its rate a line on stdout.

It is started with a tree as its argument and measures with that tree's own package and benchmarks, so that both sides
of a comparison are whole: broker, client library, agents and the benchmark's points.
"""

import sys
import time
from functools import cache
from pathlib import Path

WARM_UP_SECONDS = 0.3
PLAIN = "plain"
STUDY_PASS = "study_pass"


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


def serve(tree: Path, seconds: float) -> None:
    sys.path[:0] = [str(tree / "bench"), str(tree / "src")]
    import mqlab
    from _lab import Lab
    from ceiling import per_message
    from peers import AWAKE, OWN, WAITING, points

    if not Path(mqlab.__file__).is_relative_to(tree):
        raise SystemExit(f"{tree}: its package is not the one that was imported: {mqlab.__file__}")
    point_of = points(seconds, WARM_UP_SECONDS)
    with Lab() as lab:
        lab.rate(point_of["A"], OWN)  # the broker is up, the agents have compiled what they need
        for line in sys.stdin:
            key, _, folder = line.strip().partition(" ")
            if key == STUDY_PASS:
                warm_up_pass(Path(folder))
                rate = study_pass(Path(folder))
            elif key == PLAIN:
                rate = per_message(lab.running(OWN).address, seconds)
            else:
                rate = lab.rate(point_of[key], AWAKE if key in WAITING else OWN)
            print(rate, flush=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]).resolve(), float(sys.argv[2]))
