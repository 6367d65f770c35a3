"""Is the lab as fast a client as the load tool that a system brings? One key for each system: lab / tool.

Scenario A (one producer, one consumer, a topic, 12 bytes, not persistent) as the lab plays it, with every message
numbered, checked and recorded, and the system's own tool in its quickest form, on the same running system. Both count
what the consumer receives (but redis-benchmark, which counts what it publishes) and leave out a warm-up, which tools in
Java need; their destinations have names of one length, since that is in every message of some protocols.
"""

import argparse
from functools import partial

from _common import finish, interleaved, medians, ratio, say
from _lab import Lab, scenario
from _tools import TOOLS, Tool
from mqlab.systems import SYSTEMS, system

# Of a quick look: those that are up at once.
QUICK = ("nats", "redis", "mosquitto")


def main() -> None:
    options = arguments()
    seconds = 1.0 if options.quick else 3.0
    wanted = options.system or (QUICK if options.quick else [tool.system for tool in TOOLS])
    results: dict[str, object] = {}
    rates: dict[str, object] = {}
    with Lab() as lab:
        for tool in TOOLS:
            if tool.system not in wanted:
                continue
            if why := _missing(tool):
                say(why)
                results[tool.system] = {"why": why}
                continue
            tool.get()
            found = _measured(lab, tool, seconds, options.rounds or (2 if options.quick else 5))
            results[tool.system], rates[tool.system] = ratio(found["lab"], found["tool"]), medians(found)
    finish(**results, rates=rates)


def _missing(tool: Tool) -> str:
    if tool.system not in SYSTEMS:
        return f"there is no system {tool.system}"
    return system(tool.system).missing()


def _measured(lab: Lab, tool: Tool, seconds: float, rounds: int) -> dict[str, list[float]]:
    say(f"{tool.system}:")
    point = scenario("A", measure=seconds, warmup=1.0)
    lab.rate(point, tool.system)  # up, and warm
    running = lab.running(tool.system)
    return interleaved(
        {"lab": partial(lab.rate, point, tool.system), "tool": partial(tool.rate, running, seconds)}, rounds
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"short, and only {', '.join(QUICK)}")
    parser.add_argument("--rounds", type=int, help="how many rounds")
    parser.add_argument("--system", action="append", help="only this one; may be repeated")
    return parser.parse_args()


if __name__ == "__main__":
    main()
