"""Measures one work tree for `before_after.py`: a key a line on stdin, its rate a line on stdout.

It is started with a tree as its argument and measures with that tree's own package and benchmarks, so that both sides
of a comparison are whole: broker, client library, agents and the benchmark's points.
"""

import sys
from pathlib import Path

WARM_UP_SECONDS = 0.3
PLAIN = "plain"


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
            key = line.strip()
            if key == PLAIN:
                rate = per_message(lab.running(OWN).address, seconds)
            else:
                rate = lab.rate(point_of[key], AWAKE if key in WAITING else OWN)
            print(rate, flush=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]).resolve(), float(sys.argv[2]))
