"""Kill a broker under persistent load, again and again, and count what was lost. The short form is in the tests:

python tests/crash/killing.py --kills 1000 --messages 1000000
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import uvloop
from ledger import Ledger
from protocol_roles import AmqpProducer, MqttProducer
from roles import Consumer, Producer, Role, TransactedForwarder, TwoPhaseForwarder
from victim import Victim

from mqlab.client import aio

COUNTED = ("confirmed", "unknown", "rolled_back", "received", "duplicates")


@dataclass
class Figures:
    kills: int = 0
    confirmed: int = 0
    unknown: int = 0
    rolled_back: int = 0
    received: int = 0
    duplicates: int = 0
    seconds: float = 0.0
    slowest_start: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    def add(self, other: "Figures") -> None:
        for name in ("kills", *COUNTED):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.slowest_start = max(self.slowest_start, other.slowest_start)
        for what, count in other.faults.items():
            self.faults[what] = self.faults.get(what, 0) + count
        self.examples += other.examples


def make_roles(victim: Victim, ledger: Ledger, seed: int) -> tuple[list[Producer], list[Role]]:
    """Confirmed sends over each protocol, transactions, durable subscriptions, messages that move on."""
    producers = [
        Producer(victim, ledger, 1, "queue:plain", ("queue:plain",), 0),
        Producer(victim, ledger, 2, "queue:plain", ("queue:plain",), 0),
        Producer(victim, ledger, 3, "queue:plain too", ("queue:plain too",), 0),
        Producer(victim, ledger, 4, "queue:transacted", ("queue:transacted",), 3),
        Producer(victim, ledger, 5, "queue:transacted", ("queue:transacted",), 1),
        Producer(victim, ledger, 6, "queue:in", ("queue:out",), 2),
        Producer(victim, ledger, 7, "topic:news.today", ("one", "other"), 0),
        Producer(victim, ledger, 8, "topic:news.today", ("one", "other"), 2),
        Producer(victim, ledger, 9, "queue:two phases", ("queue:decided",), 0),
        MqttProducer(victim, ledger, 10, "mqtt", qos=1),
        MqttProducer(victim, ledger, 11, "mqtt", qos=2),
        AmqpProducer(victim, ledger, 12, "amqp"),
        AmqpProducer(victim, ledger, 13, "plain"),
    ]
    consumers: list[Role] = [
        Consumer(victim, ledger, seed + 1, "queue:plain", transacted=False),
        Consumer(victim, ledger, seed + 2, "queue:plain too", transacted=True),
        Consumer(victim, ledger, seed + 3, "queue:transacted", transacted=True),
        TransactedForwarder(victim, ledger, seed + 4, "queue:in", "queue:out"),
        Consumer(victim, ledger, seed + 5, "queue:out", transacted=True),
        Consumer(victim, ledger, seed + 6, "topic:news.*", transacted=False, durable="one"),
        Consumer(victim, ledger, seed + 7, "topic:news.today", transacted=True, durable="other"),
        TwoPhaseForwarder(victim, ledger, seed + 8, "queue:two phases", "queue:decided"),
        Consumer(victim, ledger, seed + 9, "queue:decided", transacted=True),
        Consumer(victim, ledger, seed + 10, "queue:mqtt", transacted=False),
        Consumer(victim, ledger, seed + 11, "queue:amqp", transacted=True),
    ]
    return producers, consumers


async def run_broker(folder: Path, kills: int, messages: int, seed: int) -> Figures:
    """One broker, killed `kills` times, and at least so many confirmed messages."""
    chance, ledger, victim = random.Random(seed), Ledger(), Victim(folder)
    producers, consumers = make_roles(victim, ledger, seed)
    begin = time.monotonic()
    await victim.start()
    for consumer in consumers:
        await consumer.prepare()
    tasks = [asyncio.ensure_future(role.run()) for role in (*producers, *consumers)]
    try:
        while victim.kills < kills or ledger.counts["confirmed"] < messages:
            share = max(1, (messages - ledger.counts["confirmed"]) // max(1, kills - victim.kills))
            await _wait_until_confirmed(ledger, ledger.counts["confirmed"] + share, tasks)
            if victim.kills < kills:
                # Anywhere in a sync, a write or a recovery of the roles.
                await asyncio.sleep(chance.uniform(0, 0.03))
                await victim.kill()
                await victim.start()
        await _drain(victim, producers, consumers, tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        code = await victim.stop()
    ledger.settle({producer.number: producer.ends for producer in producers})
    if code or "Traceback" in victim.stderr or "refused" in victim.stderr:
        ledger.faults["the broker logged an error"] += 1
        ledger.examples.append(victim.stderr[-2000:])
    counted = {name: ledger.counts[name] for name in COUNTED}
    seconds, slowest = time.monotonic() - begin, max(victim.recovery_seconds)
    return Figures(
        victim.kills, **counted, seconds=seconds, slowest_start=slowest, faults=dict(ledger.faults),
        examples=ledger.examples,
    )  # fmt: skip


async def _wait_until_confirmed(ledger: Ledger, wanted: int, tasks: "Sequence[asyncio.Future[None]]") -> None:
    deadline = time.monotonic() + 240
    while ledger.counts["confirmed"] < wanted:
        _raise_errors(tasks)
        if time.monotonic() > deadline:
            raise RuntimeError(f"only {ledger.counts['confirmed']} confirmed where {wanted} should be")
        await asyncio.sleep(0.002)


async def _drain(
    victim: Victim, producers: list[Producer], consumers: list[Role], tasks: "Sequence[asyncio.Future[None]]"
) -> None:
    """Producers stop, and consumers go on until nothing is left."""
    for producer in producers:
        producer.stopping = True
    await asyncio.wait(tasks[: len(producers)], timeout=240)
    _raise_errors(tasks)
    fewest, deadline = None, 0.0
    async with await aio.connect(victim.address) as connection:
        while (left := (await connection.status())["messages"]) > 0:
            _raise_errors(tasks)
            if fewest is None or left < fewest:
                fewest, deadline = left, time.monotonic() + 240
            if time.monotonic() > deadline:
                raise RuntimeError(f"{left} messages are left, and no consumer gets them")
            await asyncio.sleep(0.01)
    for consumer in consumers:
        consumer.stopping = True
    await asyncio.wait(tasks, timeout=240)
    _raise_errors(tasks)


def _raise_errors(tasks: "Sequence[asyncio.Future[None]]") -> None:
    for task in tasks:
        if task.done() and not task.cancelled():
            task.result()


async def torture(folder: Path, kills: int, messages: int, *, lanes: int = 2, seed: int = 1) -> Figures:
    """Several brokers side by side, each with its share of the kills and messages."""
    begin, total = time.monotonic(), Figures()
    shares = []
    for number in range(lanes):
        (folder / str(number)).mkdir()
        mine = kills // lanes + (number < kills % lanes)
        shares.append(run_broker(folder / str(number), mine, -(-messages // lanes), seed * 1000 + number))
    for figures in await asyncio.gather(*shares):
        total.add(figures)
    total.seconds = time.monotonic() - begin
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="how often a broker is killed (50)")
    parser.add_argument("--messages", type=int, default=50_000, help="least number of confirmed messages (50000)")
    parser.add_argument("--lanes", type=int, default=2, help="brokers side by side (2)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other moments (1)")
    parser.add_argument("--folder", type=Path, help="where the data folders go (a new temporary one)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mqlab-torture-", dir=chosen.folder) as folder:
        run = torture(Path(folder), chosen.kills, chosen.messages, lanes=chosen.lanes, seed=chosen.seed)
        figures = uvloop.run(run)
    sys.stdout.write(json.dumps(asdict(figures), indent=2) + "\n")
    return 1 if figures.faults else 0


if __name__ == "__main__":
    sys.exit(main())
