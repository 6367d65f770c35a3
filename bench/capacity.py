"""Whether `mqlab capacity` finds a limit that is known, and the same limit once more.

Made-up systems go through the search that plays real runs. Each is a queue with a limit between 30 and 2 million
messages a second, the latencies of its runs scatter by 10 %, and the search begins at 0.3 to 3 times the limit.

within_3  share of the limits that are found within 3 %. It should be 1.
runs      the runs that a search takes.

The long form also runs `mqlab capacity`, some minutes each:

known_limit  the rate that it finds, over the limit, of a broker whose disk has 250 marks a second: one producer that
    waits for each confirmation sends one message a mark. Between 0.97 and 1.03.
repeated  the greater over the less of the rates that two searches of one command find on the embedded broker, with
    runs in turns, so that the machine is the same to both: at most 1.05. With `--rounds` so many such commands.
later  the greatest over the least rate of all these commands: it has what the machine changes meanwhile.
undecided  the searches of these commands that found no limit: on a noisy machine no rate may be decided. They count for
    no other key, which is null without any search.
The rates are in `rates`, with the outcome of each search, and the least and the greatest limit.
"""

import json
import random
import subprocess
import sys
import tempfile
from math import exp, log
from pathlib import Path
from typing import Any, Final

from _common import arguments, finish, level, say
from mqlab.cli.terminal.console import Exit
from mqlab.study.capacity.search import CapacitySearch, Trial

GOAL_S: Final = 0.010
DEVIATION: Final = 0.10
MARKS: Final = 250
COMMANDS: Final = 1
# A search that decides nothing is a result too.
_ENDS: Final = (Exit.OK, Exit.GOAL_MISSED, Exit.INCONCLUSIVE)
CONFIRMED_STUDY: Final = """
study: confirmed
title: A producer that waits for the disk
scenarios:
  confirmed: {queues: 1, producers: 1, consumers: 1, message: {size: 1KiB, persistent: yes}, send: confirmed}
"""


def main() -> None:
    options = arguments(__doc__ or "", "fewer made-up systems, and no real ones")
    count = options.rounds or (100 if options.quick else 2000)
    chance = random.Random(26)
    searches = [_search_made_up(chance) for _ in range(count)]
    results: dict[str, object] = {
        "within_3": level([float(abs(found / limit - 1) <= 0.03) for found, limit, _ in searches]),
        "runs": level([float(runs) for _, _, runs in searches]),
    }
    if not options.quick:
        results |= _real(options.rounds or COMMANDS)
    finish(**results)


def _search_made_up(chance: random.Random) -> tuple[float, float, int]:
    """The rate that is found (0 if none is), the limit, and the number of runs."""
    limit = exp(chance.uniform(log(30), log(2e6)))
    search = CapacitySearch(chance.uniform(0.3, 3) * limit, floor=1.0, ceiling=1e7, tolerance=0.015)
    trials: list[Trial] = []
    while asked := search.next_runs(trials):
        trials += [_trial(rate, limit, chance) for rate, runs in asked.items() for _ in range(runs)]
    result = search.result(trials)
    return (result.rate or 0.0) if result.status == "found" else 0.0, limit, len(trials)


def _trial(rate: float, limit: float, chance: random.Random) -> Trial:
    """A run of a queue that reaches the goal at the limit, and is full one tenth above it."""
    full = 1.1 * limit
    latency = GOAL_S * (1 - limit / full) / (1 - rate / full) if rate < full else 1000.0
    held = latency * exp(chance.gauss(0, DEVIATION)) < GOAL_S
    return Trial(rate, "held" if held else "missed", "" if held else "latency")


# Any: the results have values of several kinds.
def _real(commands: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="mqlab-bench-") as folder:
        (Path(folder) / "study.yaml").write_text(CONFIRMED_STUDY)
        marks = ("--study", "study.yaml", "--goal", "latency.p50 < 50ms", "--seconds", "2")
        (known,) = _searches(folder, f"embedded:disk_marks={MARKS}", *marks)
        goal = ("embedded", "--goal", "latency.p99 < 10ms", "--aa")
        found = [_searches(folder, *goal) for _ in range(commands)]
    searches = [search for both in found for search in both]
    rates = [search["rate"] for search in searches if _is_found(search)]
    pairs = [[search["rate"] for search in both] for both in found if all(map(_is_found, both))]
    return {
        "known_limit": round(known["rate"] / MARKS, 4) if _is_found(known) else None,
        "repeated": level([max(both) / min(both) for both in pairs]) if pairs else None,
        "later": round(max(rates) / min(rates), 4) if rates else None,
        "undecided": sum(not _is_found(search) for search in (known, *searches)),
        "rates": [{key: search[key] for key in ("status", "rate", "low", "high")} for search in searches],
    }


# Any: the values of a JSON document.
def _is_found(search: dict[str, Any]) -> bool:
    return bool(search["status"] == "found")


def _searches(folder: str, *words: str) -> list[dict[str, Any]]:
    """The results of the searches of one command."""
    command = [sys.executable, "-m", "mqlab", "capacity", *words, "--json"]
    ended = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    if ended.returncode not in _ENDS:
        raise SystemExit(f"mqlab capacity ended with {ended.returncode}")
    document = json.loads(ended.stdout)
    say(document["answer"])
    return [dict(capacity) for capacity in document["capacities"]]


if __name__ == "__main__":
    main()
