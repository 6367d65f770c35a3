"""Is the lab as fast a client as those that a system brings? Each key is the rate of the lab over that of one of these.

nats, rabbitmq, ...: scenario A (one producer, one consumer, a topic, 12 bytes, not persistent) as the lab plays it,
with every message numbered, checked and recorded, and the system's own load tool in its quickest form, on the same
running system. Both count what the consumer receives (but redis-benchmark, which counts what it publishes) and leave
out a warm-up, which tools in Java need; their destinations have names of one length, since that is in every message of
some protocols.
nats_RR1, nats_RR8, redis_RR1, redis_RR8: RR1 and RR8 of `peers.py`, round trips of 1 KiB with 1 and 8 requesters, as
the lab plays them, and a small client in Go (`go/round_trips`) of nats.go or rueidis. The client sends the same
commands as the lab over as many connections, from one process with all requesters to one with the responder. It checks
the size of each reply, and records nothing.
"""

from functools import partial

from _common import arguments, finish, interleaved, medians, ratio, say
from _lab import Lab, scenario
from _tools import TOOLS, Tool
from peers import points

# Of a quick look: those that are up at once.
QUICK = ("nats", "redis", "mosquitto")


def main() -> None:
    options = arguments(
        __doc__ or "", f"short, and only {', '.join(QUICK)}", system="only the keys of this one", key="only this one"
    )
    seconds, warmup = (0.7, 0.3) if options.quick else (3.0, 1.0)
    systems = options.system or (QUICK if options.quick and not options.key else [tool.system for tool in TOOLS])
    tools = [tool for tool in TOOLS if tool.system in systems and (not options.key or tool.key in options.key)]
    results: dict[str, object] = {}
    rates: dict[str, object] = {}
    with Lab() as lab:
        if options.smoke:
            # The lab's side alone: the tools belong to other systems.
            tools, rates["embedded"] = [], round(lab.rate(scenario("A", measure=0.1)))
        for tool in tools:
            if why := tool.unavailable():
                say(why)
                results[tool.key] = {"why": why}
                continue
            found = _measured(lab, tool, seconds, warmup, options.rounds or (2 if options.quick else 5))
            results[tool.key], rates[tool.key] = ratio(found["lab"], found["tool"]), medians(found)
    finish(**results, rates=rates)


def _measured(lab: Lab, tool: Tool, seconds: float, warmup: float, rounds: int) -> dict[str, list[float]]:
    say(f"{tool.key}:")
    point = points(seconds, warmup)[tool.point]
    lab.rate(point, tool.system)  # up, and warm
    running = lab.running(tool.system)
    return interleaved(
        {"lab": partial(lab.rate, point, tool.system), "tool": partial(tool.rate, running, seconds)}, rounds
    )


if __name__ == "__main__":
    main()
