"""Two brokers with channels both ways: links are cut and brokers are killed, and every message arrives once, in order.

python tests/crash/linking.py --cuts 200 --kills 20 --messages 100000

First the links are cut, at any moment and in the middle of frames; then (cuts go on) each broker is killed so often. Of
what is received while brokers are killed, only what a confirmed commit took must not come again; so half of the
messages stay where they arrive, and are counted at the end.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import uvloop
from ledger import CONFIRMED, Ledger, bodies, read
from proxy import Proxy
from roles import Consumer, Producer, Role
from victim import Victim

from mqlab.client import aio
from mqlab.wire.native.bodies import encode_equal

TIMEOUT_SECONDS = 240
PAUSE_SECONDS = 0.1


@dataclass
class Figures:
    cuts: int = 0
    kills: int = 0
    confirmed: int = 0
    received: int = 0
    # Non-persistent messages, while links were cut only.
    light: int = 0
    # How often a channel found, after a cut or a kill, that a batch had arrived whose commit was never confirmed to it.
    found_arrived: int = 0
    seconds: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)


class PacedProducer(Producer):
    """Pauses after each send: cuts and kills should fall between messages, not into a backlog."""

    async def _send(self, producer: aio.Producer) -> None:
        await super()._send(producer)
        await asyncio.sleep(PAUSE_SECONDS)

    async def _send_transaction(self, session: aio.Session, producer: aio.Producer) -> None:
        await super()._send_transaction(session, producer)
        await asyncio.sleep(PAUSE_SECONDS)


class NonPersistentProducer(Producer):
    """Sends non-persistent batches, whose way is counted by hand."""

    async def _send(self, producer: aio.Producer) -> None:
        first, count = self._next_range()
        await producer.send_batch(encode_equal(bodies(self.number, first, count), count))
        await producer.flush()
        self._ledger.sent(self.number, first, count, CONFIRMED)
        self._ledger.counts["light"] += count
        await asyncio.sleep(PAUSE_SECONDS)


class Link:
    """One direction: its proxy, its producers here, its consumers there."""

    def __init__(self, here: Victim, there: Victim, to: str, proxy: Proxy, ledger: Ledger, seed: int) -> None:
        self.here, self.there, self.to, self.proxy = here, there, to, proxy
        # One queue for each producer: the channel puts single messages together, and the ledger wants them by producer.
        self.kept, live, light = ["queue:kept", "queue:kept too"], ["queue:live", "queue:live too"], "queue:light"
        self.light = [NonPersistentProducer(here, ledger, seed + 5, f"{light}@{to}", (light,), 0)]
        self.producers = [
            PacedProducer(here, ledger, seed + number, f"{queue}@{to}", (queue,), transaction)
            for number, (queue, transaction) in enumerate(zip((*self.kept, *live), (0, 2, 0, 3), strict=True))
        ]
        self.consumers: list[Role] = [
            *(Consumer(there, ledger, seed + number, queue, transacted=True) for number, queue in enumerate(live)),
            Consumer(there, ledger, seed + 2, light, transacted=False),
        ]


class ChannelTest:
    def __init__(self, folder: Path, seed: int) -> None:
        self.chance, self.ledger = random.Random(seed), Ledger()
        paths = {name: folder / name for name in "AB"}
        self.proxies = {name: Proxy(str(path / "socket"), self.chance) for name, path in paths.items()}
        self._paths = paths

    async def start(self) -> None:
        for path in self._paths.values():
            path.mkdir()
        for proxy in self.proxies.values():
            await proxy.start()
        self.sites = {
            name: Victim(path, "--name", name, "--channel", f"{to}=tcp:127.0.0.1:{self.proxies[to].port}",
                         "--queue-limit", "1GiB")
            for (name, path), to in zip(self._paths.items(), "BA", strict=True)
        }  # fmt: skip
        a, b = self.sites["A"], self.sites["B"]
        self.links = [
            Link(a, b, "B", self.proxies["B"], self.ledger, 100), Link(b, a, "A", self.proxies["A"], self.ledger, 200),
        ]  # fmt: skip
        await asyncio.gather(a.start(), b.start())
        self.roles = [role for link in self.links for role in (*link.producers, *link.light, *link.consumers)]
        self.tasks = [asyncio.ensure_future(role.run()) for role in self.roles]

    async def run(self, cuts: int, kills: int, messages: int) -> None:
        share = messages // max(1, cuts + 2 * kills)
        for number in range(cuts):
            await self._wait_until_moving(share)
            self.links[number % 2].proxy.cut()
        for light in (one for link in self.links for one in link.light):
            light.stopping = True
        await self._until(self._all_non_persistent_arrived, "non-persistent messages are missing after cuts")
        for number in range(2 * kills):
            await self._wait_until_moving(share)
            site = self.sites["AB"[number % 2]]
            self.links[self.chance.randrange(2)].proxy.cut()
            await site.kill()
            await site.start()
        await self._until(lambda: self.ledger.counts["confirmed"] >= messages, "too few were confirmed")
        await self._drain()

    async def _wait_until_moving(self, share: int) -> None:
        """Wait until both links carry messages again, and then for a random moment."""
        confirmed, received = self.ledger.counts["confirmed"] + share, self.ledger.counts["received"] + 20
        counts = self.ledger.counts
        await self._until(
            lambda: counts["confirmed"] >= confirmed and counts["received"] >= received, "no message moves any more"
        )
        await asyncio.sleep(self.chance.uniform(0, 0.03))

    def _all_non_persistent_arrived(self) -> bool:
        places = self.ledger.consumed.items()
        there = sum(int((place.times.values > 0).sum()) for (queue, _), place in places if queue == "queue:light")
        roles = zip(self.roles, self.tasks, strict=True)
        stopped = all(task.done() for role, task in roles if isinstance(role, NonPersistentProducer))
        return stopped and there == self.ledger.counts["light"]

    async def _until(self, condition: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not condition():
            for task in self.tasks:
                if task.done() and not task.cancelled():
                    task.result()
            if time.monotonic() > deadline:
                raise RuntimeError(f"{otherwise}: {dict(self.ledger.counts)}")
            await asyncio.sleep(0.002)

    async def _drain(self) -> None:
        """Producers stop; all that is on its way arrives; what was kept is counted."""
        for role in self.roles:
            if isinstance(role, Producer):
                role.stopping = True
        producing = [task for role, task in zip(self.roles, self.tasks, strict=True) if isinstance(role, Producer)]
        await self._until(lambda: all(task.done() for task in producing), "a producer does not stop")
        for link in self.links:
            await self._empty(link)
        for role in self.roles:
            role.stopping = True
        await self._until(lambda: all(task.done() for task in self.tasks), "a consumer does not stop")
        for link in self.links:
            for queue in link.kept:
                await self._count_kept(link, queue)

    async def _empty(self, link: Link) -> None:
        """Wait until the transmission queue and all queues with consumers are empty."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        async with await aio.connect(link.here.address) as here, await aio.connect(link.there.address) as there:
            while True:
                waiting = (await here.ask("show", name=f"queue:transmit.{link.to}"))["messages"]
                listed = (await there.ask("list"))["destinations"]
                left = sum(one["messages"] for one in listed if one["name"].startswith(("queue:live", "queue:light")))
                if not waiting and not left:
                    return
                if time.monotonic() > deadline:
                    channels = await here.ask("channels")
                    raise RuntimeError(f"{waiting} messages wait to be transmitted, {left} to be received: {channels}")
                await asyncio.sleep(0.01)

    async def _count_kept(self, link: Link, queue: str) -> None:
        last = -1
        async with await aio.connect(link.there.address) as connection:
            session = await connection.session()
            consumer = await session.consumer(queue)
            left = (await connection.ask("show", name=queue))["messages"]
            while left > 0:
                delivery = await consumer.receive_batch(timeout=TIMEOUT_SECONDS)
                left -= delivery.rows
                table = delivery.bodies().table()
                assert table is not None
                producer, seqs = read(table)
                # None of them was ever delivered before, whatever mark a restart gave it.
                last = self.ledger.received(queue, producer, seqs, False, last)

    def figures(self) -> Figures:
        ledger = self.ledger
        ledger.settle({role.number: role.ends for role in self.roles if isinstance(role, Producer)})
        logs = [site.stderr for site in self.sites.values()]
        if any("Traceback" in log for log in logs):
            ledger.faults["a broker logged an error"] += 1
            ledger.examples += [log[-2000:] for log in logs]
        return Figures(
            sum(proxy.cuts for proxy in self.proxies.values()), min(site.kills for site in self.sites.values()),
            ledger.counts["confirmed"], ledger.counts["received"], ledger.counts["light"],
            sum(log.count("that were in doubt had arrived") for log in logs),
            faults=dict(ledger.faults), examples=ledger.examples,
        )  # fmt: skip

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        codes = [await site.stop() for site in self.sites.values()]
        for proxy in self.proxies.values():
            await proxy.stop()
        if any(codes):
            self.ledger.faults["a broker ended badly"] += 1


async def torture(folder: Path, cuts: int, kills: int, messages: int, seed: int = 1) -> Figures:
    """`kills` of each broker."""
    begin, test = time.monotonic(), ChannelTest(folder, seed)
    await test.start()
    try:
        await test.run(cuts, kills, messages)
    finally:
        await test.stop()
    figures = test.figures()
    figures.seconds = round(time.monotonic() - begin, 1)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=20, help="how often a link is cut (20)")
    parser.add_argument("--kills", type=int, default=3, help="how often each broker is killed (3)")
    parser.add_argument("--messages", type=int, default=10_000, help="least number of confirmed messages (10000)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other moments (1)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mqlab-linking-") as folder:
        figures = uvloop.run(torture(Path(folder), chosen.cuts, chosen.kills, chosen.messages, chosen.seed))
    print(json.dumps(asdict(figures)))
    return 1 if figures.faults else 0


if __name__ == "__main__":
    sys.exit(main())
