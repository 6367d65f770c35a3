"""Hostile clients against a broker with little memory, beside well-behaved ones whose waiting is measured:

python tests/torture/hostile.py --seconds 60 --seed 1

Each round is a broker of its own, in turn with users and without, with traces and without, and a mix of attacks that
the seed decides. The attackers run with a low priority: all share one machine. The last line is JSON.

The broker must not grow by more than its memory limit and 20 %, write no traceback, lose or repeat no message of the
well-behaved clients, and end on SIGTERM. With --strict also: 99 of 100 requests are answered within 50 ms, and the
broker ends within 5 seconds; that is for a machine that does nothing else, and the attackers run there only when
nobody else wants a processor.

A virtual machine is never quite its own: with --strict a second broker, which nobody attacks, serves a few
well-behaved clients beside the first. What its requests wait is the machine's doing, and is allowed to the others too.
"""

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

import uvloop  # noqa: E402 - found only now

from hostile.honest_clients import PAUSE, GoodClients  # noqa: E402
from hostile.target import GUEST, GUESTS_PASSWORD, Target, exchange  # noqa: E402
from mqlab.client import aio  # noqa: E402
from mqlab.json_values import JsonObject  # noqa: E402

MEMORY_LIMIT = 128 * 1024 * 1024
ALLOWED_PERCENT = 120
P99_MS = 50.0
END_SECONDS = 5.0
ROUND_SECONDS = 60.0
# Between two requests to the broker that nobody attacks.
CONTROL_PAUSE = 5 * PAUSE


@dataclass(frozen=True)
class Options:
    seed: int
    # The name of the only attack, or "".
    attack: str
    strict: bool


class Figures:
    """Of all rounds."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.attacks: Counter[str] = Counter()
        self.requests: list[float] = []
        self.work: list[float] = []
        self.confirmations: list[float] = []
        self.control: list[float] = []
        self.peak_percent = 0
        self.end_seconds = self.longest_turn_ms = 0.0

    def document(self, *, strict: bool) -> JsonObject:
        p99, control_p99 = _ms(self.requests, 0.99), _ms(self.control, 0.99)
        wrong = {
            **{name: self.counts[name] for name in ("tracebacks", "lost", "duplicated", "trace_errors")},
            "over_memory": int(self.peak_percent > ALLOWED_PERCENT),
            "slow": int(strict and p99 > P99_MS + control_p99),
            "ended_late": int(strict and self.end_seconds > END_SECONDS),
        }  # fmt: skip
        return {
            "rounds": self.counts["rounds"], "attacks": self.attacks.total(), "kinds": len(self.attacks),
            "requests": len(self.requests), "confirmed": len(self.confirmations),
            "p50_ms": _ms(self.requests, 0.5), "p99_ms": p99, "max_ms": _ms(self.requests, 1.0),
            "work_p50_ms": _ms(self.work, 0.5), "work_p99_ms": _ms(self.work, 0.99),
            "control_requests": len(self.control), "control_p99_ms": control_p99,
            "control_max_ms": _ms(self.control, 1.0),
            "confirm_p99_ms": _ms(self.confirmations, 0.99), "longest_turn_ms": round(self.longest_turn_ms, 1),
            "peak_percent_of_limit": self.peak_percent, "end_seconds": round(self.end_seconds, 2), **wrong,
        }  # fmt: skip

    def is_sound(self, *, strict: bool) -> bool:
        names = ("tracebacks", "lost", "duplicated", "trace_errors", "over_memory", "slow", "ended_late")
        return not any(self.document(strict=strict)[name] for name in names)


def _ms(seconds: list[float], part: float) -> float:
    if not seconds:
        return 0.0
    return round(sorted(seconds)[min(len(seconds) - 1, int(part * len(seconds)))] * 1000, 2)


async def watch_memory(target: Target, idle: int, figures: Figures) -> None:
    while True:
        grown = target.process.memory_info().rss - idle
        figures.peak_percent = max(figures.peak_percent, grown * 100 // MEMORY_LIMIT)
        await asyncio.sleep(0.05)


async def under_attack(target: Target, control: Target | None, seconds: float, figures: Figures) -> None:
    for number in range(3):
        await exchange(target, number)
    idle = target.process.memory_info().rss
    watching = asyncio.ensure_future(watch_memory(target, idle, figures))
    good = GoodClients(target)
    if control is None:
        await good.run(seconds)
    else:
        beside = GoodClients(control, CONTROL_PAUSE)
        await asyncio.gather(good.run(seconds), beside.run(seconds))
        figures.control += beside.requests
    watching.cancel()
    figures.requests += good.requests
    figures.work += good.work
    figures.confirmations += good.confirmations
    figures.counts.update(lost=good.lost, duplicated=good.duplicated)
    async with await aio.connect(target.address, **target.login) as connection:
        status = await connection.ask("status")
        figures.longest_turn_ms = max(figures.longest_turn_ms, status.get("longest_turn_ns", 0) / 1e6)
        figures.counts["trace_errors"] += (await connection.ask("trace"))["errors"]


def attackers(target: Target, seed: int, options: Options) -> "subprocess.Popen[str]":
    numbers = map(str, (target.port, target.tls_port, target.metrics_port, seed))
    as_guest = ["--user", GUEST, "--password", GUESTS_PASSWORD] if target.users else []
    chosen = ["--only", options.attack, *(["--idle"] if options.strict else [])]
    process = subprocess.Popen(
        [sys.executable, "-m", "hostile.attacker", *numbers, str(target.ca), *as_guest, *chosen],
        cwd=TESTS, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "attacking\n"
    return process


def play(number: int, seconds: float, figures: Figures, options: Options) -> None:
    """One round."""
    seed = options.seed * 1000 + number
    with tempfile.TemporaryDirectory(prefix="mqlab-hostile-") as folder:
        settings = (f"--memory-limit={MEMORY_LIMIT}", "--queue-limit=1MiB", "--log-length=32MiB", "--segment-size=8MiB")
        target = Target(Path(folder), *settings, users=number % 2 == 1, traced=number // 2 % 2 == number % 2)
        control = Target(Path(folder, "control"), *settings) if options.strict else None
        hostile: subprocess.Popen[str] | None = None
        said = ""
        try:
            target.start()
            if control is not None:
                control.start()
            hostile = attackers(target, seed, options)
            uvloop.run(under_attack(target, control, seconds, figures))
            # While the attackers go on.
            began = time.monotonic()
            target.end()
            figures.end_seconds = max(figures.end_seconds, time.monotonic() - began)
        except BaseException as error:
            error.add_note(f"round {number} with seed {seed}\n{target.log()}")
            raise
        finally:
            if hostile is not None:
                hostile.send_signal(signal.SIGTERM)
                said, _ = hostile.communicate()
            target.kill()
            if control is not None:
                control.kill()
        assert hostile.returncode == 0, "the attackers failed"
        figures.attacks.update(json.loads(said.strip().rpartition("\n")[2]))
        figures.counts.update(rounds=1, tracebacks=target.tracebacks())
        if target.tracebacks():
            print(target.log(), file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="under attack, in all rounds together (60)")
    parser.add_argument("--rounds", type=int, default=0, help="brokers (one for each minute, and two at the least)")
    parser.add_argument("--seed", type=int, default=1, help="decides about the attacks (1)")
    parser.add_argument("--attack", default="", metavar="NAME", help="this one only (tests/hostile/attacks.py)")
    parser.add_argument("--strict", action="store_true", help="judge times as well")
    chosen = parser.parse_args(arguments)
    rounds = chosen.rounds or max(2, round(chosen.seconds / ROUND_SECONDS))
    figures = Figures()
    # Whoever ends it ends its brokers too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    for number in range(rounds):
        play(number, chosen.seconds / rounds, figures, Options(chosen.seed, chosen.attack, strict=chosen.strict))
        print(f"round {number}: {json.dumps(figures.document(strict=chosen.strict))}", file=sys.stderr, flush=True)
    print(json.dumps(figures.document(strict=chosen.strict)))
    return 0 if figures.is_sound(strict=chosen.strict) else 1


if __name__ == "__main__":
    sys.exit(main())
