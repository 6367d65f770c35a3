"""A process that attacks a broker, with the lowest priority there is: python -m hostile.attacker PORT ...

Attackers share the machine with what they attack; in the world they would have their own. So others come first
(nice 19), or they run only when nobody else wants a processor (--idle): what is measured is what the broker does, not
what the machine has left for it.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import ssl
import sys
from collections import Counter

import uvloop

from .attacks import ATTACKS
from .payloads import Login
from .peers import Victim, connect

# Attacks at the same time.
AT_ONCE = 12


async def attack(victim: Victim, chance: random.Random, only: str) -> str | None:
    """The name of the attack; None: nobody listens."""
    chosen = chance.choice([one for one in ATTACKS if only in ("", one.__name__)])
    try:
        peer = await connect(victim, chance)
    except OSError:
        await asyncio.sleep(0.05)
        return None
    try:
        await chosen(victim, chance, peer)
    except OSError:
        # What the broker ends is ended, and what takes too long is given up.
        pass
    finally:
        peer.writer.transport.abort()
    return chosen.__name__


async def run(victim: Victim, seed: int, only: str, *, idle: bool) -> dict[str, int]:
    """Until it is told to stop."""
    stopped, counts = asyncio.Event(), Counter[str]()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    print("attacking", flush=True)
    os.nice(19)
    if idle:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

    async def on_and_on(number: int) -> None:
        chance = random.Random(f"{seed} {number}")
        while not stopped.is_set():
            name = await attack(victim, chance, only)
            if name is not None:
                counts[name] += 1

    tasks = [asyncio.ensure_future(on_and_on(number)) for number in range(AT_ONCE)]
    ending = asyncio.ensure_future(stopped.wait())
    await asyncio.wait((ending, *tasks), return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if task.done():
            task.result()
        task.cancel()
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("port", "tls_port", "metrics_port", "seed"):
        parser.add_argument(name, type=int)
    parser.add_argument("ca")
    parser.add_argument("--user", default="")
    parser.add_argument("--password", default="")
    parser.add_argument("--idle", action="store_true")
    parser.add_argument("--only", default="", choices=["", *(one.__name__ for one in ATTACKS)])
    chosen = parser.parse_args()
    tls = ssl.create_default_context(cafile=chosen.ca)
    tls.check_hostname = False
    login: Login = {"user": chosen.user, "password": chosen.password} if chosen.user else {}
    victim = Victim(chosen.port, chosen.tls_port, chosen.metrics_port, login, tls)
    print(json.dumps(uvloop.run(run(victim, chosen.seed, chosen.only, idle=chosen.idle))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
