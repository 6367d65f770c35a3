"""Is the lab as fast a client as the load tool that a system brings? One key for each system: lab / tool.

Scenario A (one producer, one consumer, a topic, 12 bytes, not persistent) as the lab plays it, with every message
numbered, checked and recorded, and the system's own tool in its quickest form, on the same running system. Both count
what the consumer receives (but redis-benchmark, which counts what it publishes) and leave out a warm-up, which tools in
Java need; their destinations have names of one length, since that is in every message of some protocols.
"""

from functools import partial

from _common import arguments, finish, interleaved, medians, ratio, say
from _lab import Lab, scenario
from _tools import TOOLS, Tool
from mqlab.systems import SYSTEMS, system

# Of a quick look: those that are up at once.
QUICK = ("nats", "redis", "mosquitto")


def main() -> None:
    options = arguments(__doc__ or "", f"short, and only {', '.join(QUICK)}", system="only this one")
    seconds = 1.0 if options.quick else 3.0
    wanted = options.system or (QUICK if options.quick else [tool.system for tool in TOOLS])
    results: dict[str, object] = {}
    rates: dict[str, object] = {}
    with Lab() as lab:
        if options.smoke:
            # The lab's side alone: the tools belong to other systems.
            wanted, rates["embedded"] = [], round(lab.rate(scenario("A", measure=0.1)))
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


if __name__ == "__main__":
    main()
