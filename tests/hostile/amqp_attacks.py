"""What a hostile client does over AMQP 1.0."""

import asyncio
import random
from collections.abc import Iterable
from typing import Any

from broker.server.amqp.raw_amqp import message
from mqlab.broker import limits
from mqlab.wire.amqp10.frames import frame
from mqlab.wire.amqp10.performatives import (
    Attach,
    Coordinator,
    Detach,
    Disposition,
    End,
    Flow,
    Source,
    Target,
    TransactionalState,
    Transfer,
    composite,
    encode_performative,
)
from mqlab.wire.amqp10.types import Described, Symbol

from .amqp_payloads import amqp_header, amqp_open
from .peers import BODY, QUEUES, Attack, Peer, Victim, connect

# Numbers as no client of ours would send them.
NUMBERS = (0, 1, 2, 100, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1)
OUTCOMES = tuple(Described(code, []) for code in range(0x23, 0x28))


def encoded(performative: tuple[Any, ...], channel: int = 0, payload: bytes = b"") -> bytes:
    return frame(channel, encode_performative(performative) + payload)


async def enter(victim: Victim, peer: Peer, container: str = "", sessions: int = 1) -> None:
    """Header, login, open and begin at once: the broker handles each when it has handled the one before."""
    await peer.write(amqp_header(victim.login), amqp_open(victim.login, container, sessions))
    await peer.read(5)


def sender(handle: int, address: str | None, name: str = "") -> Attach:
    target = composite(Target(address))
    return Attach(name or f"s{handle}", handle, False, None, None, composite(Source()), target, None, None, 0)


def receiver(handle: int, address: str, *, settled: bool = False, **source: Any) -> Attach:
    mode, origin = 1 if settled else 0, composite(Source(address, **source))
    return Attach(f"r{handle}", handle, True, mode, None, origin, composite(Target()))


def transfers(handle: int, numbers: Iterable[int], body: bytes = BODY) -> bytes:
    sent = [encoded(Transfer(handle, number, b"t", 0, number % 2 == 0), 0, message(body)) for number in numbers]
    return b"".join(sent)


async def amqp_unfinished(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Messages of which more follows for ever, on many links at once; some are aborted."""
    await enter(victim, peer)
    part = chance.choice((b"", b"x", BODY, BODY * 25))
    links = 60 if len(part) > len(BODY) else 5
    for handle in range(links):
        await peer.write(encoded(sender(handle, chance.choice(QUEUES))))
    for _ in range(40):
        for handle in range(links):
            aborted = chance.random() < 0.01
            await peer.write(encoded(Transfer(handle, handle, b"t", 0, more=True, aborted=aborted), 0, part))
        await peer.read_all(0.001)
    await asyncio.sleep(chance.random())


async def amqp_links(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Sessions without end, and links of every kind in each of them."""
    sessions = chance.choice((1, 40, limits.AMQP_SESSIONS + 1))
    await enter(victim, peer, sessions=sessions)
    lookup = Attach("nothing", 0, True, None, None, None, composite(Target()))
    coordinator = Attach("c", 0, False, None, None, composite(Source()), composite(Coordinator()))
    for number in range(4000):
        one = chance.choice((
            sender(0, chance.choice(QUEUES)), sender(0, None), receiver(0, chance.choice(QUEUES)), lookup, coordinator,
            sender(0, None)._replace(target=composite(Target(dynamic=True))),
        ))  # fmt: skip
        name = f"{number} {'n' * chance.choice((1, 200))}"
        channel, handle = number % sessions, number // sessions % limits.AMQP_LINKS
        await peer.write(encoded(one._replace(name=name, handle=handle), channel))
        if number % 200 == 0:
            await peer.read_all(0.01)
        if chance.random() < 0.01:
            await peer.write(encoded(chance.choice((Detach(handle, True), Detach(handle))), channel))
    await peer.read_all(chance.random())


async def amqp_window(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Links with room for everything, in sessions whose window has room for nothing; the client reads."""
    await enter(victim, peer)
    window, name = chance.choice((0, 0, 1, 10)), chance.choice((*QUEUES, "topic:hostile"))
    await peer.write(encoded(sender(0, name)))
    # A message to a topic counts for each subscription: many of them would fill the memory by themselves.
    for handle in range(1, 30 if name in QUEUES else 3):
        await peer.write(encoded(receiver(handle, name, settled=chance.random() < 0.5)))
        await peer.write(encoded(Flow(0, window, 0, 1000, handle, 0, chance.choice((100, 1_000_000)))))
    for begin in range(0, 200, 20):
        await peer.write(transfers(0, range(begin, begin + 20), BODY * 4))
        await peer.read_all(0.01)
    await peer.read_all(chance.random())


async def amqp_deaf(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Messages for a client that does not read, or that never settles what it reads."""
    await enter(victim, peer)
    await peer.write(encoded(sender(0, QUEUES[0])), encoded(sender(1, "topic:hostile")))
    for handle, name in enumerate((QUEUES[0], QUEUES[0], "topic:hostile"), 2):
        await peer.write(encoded(receiver(handle, name, settled=chance.random() < 0.3)))
        await peer.write(encoded(Flow(0, 2**31 - 1, 0, 1000, handle, 0, 1_000_000)))
    for begin in range(0, 300, 20):
        await peer.write(transfers(chance.randrange(2), range(begin, begin + 20)))
    await (asyncio.sleep if chance.random() < 0.5 else peer.read_all)(chance.random())


async def amqp_transactions(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Transactions without end, none of which is discharged, with messages in those whose id can be guessed."""
    await enter(victim, peer)
    coordinator = Attach("c", 0, False, None, None, composite(Source()), composite(Coordinator()), None, None, 0)
    await peer.write(encoded(coordinator), encoded(sender(1, chance.choice(QUEUES))))
    declare = message(Described(0x31, [None]))
    for number in range(0, 600, 2):
        await peer.write(encoded(Transfer(0, number, b"t", 0), 0, declare))
        state = composite(TransactionalState(chance.choice((b"1", b"\0\0\0\1", number.to_bytes(8, "big")))))
        await peer.write(encoded(Transfer(1, number + 1, b"t", 0, state=state), 0, message(BODY)))
        if chance.random() < 0.05:
            await peer.write(encoded(Detach(1, True)), encoded(sender(1, chance.choice(QUEUES))))
    await peer.read_all(chance.random())


async def amqp_numbers(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Dispositions of ranges that the client never got, and flows that make no sense."""
    await enter(victim, peer)
    await peer.write(encoded(sender(0, QUEUES[1])), encoded(receiver(1, QUEUES[1])))
    await peer.write(encoded(Flow(0, 1000, 0, 1000, 1, 0, 1000)), transfers(0, range(100), b"small"))
    for _ in range(200):
        first, last, other = (chance.choice(NUMBERS) for _ in range(3))
        settled, state = chance.random() < 0.5, chance.choice((None, *OUTCOMES[1:]))
        await peer.write(encoded(chance.choice((
            Disposition(True, first, last, settled, state), Disposition(False, first, last, settled, state),
            Flow(first, last, other, 1000), Flow(first, last, other, 1000, 1, other, first, drain=settled, echo=True),
            Flow(0, 1000, 0, 1000, 1, first, 10),
        ))))  # fmt: skip
    await peer.read_all(0.2)


async def amqp_containers(victim: Victim, chance: random.Random, peer: Peer) -> None:  # noqa: ARG001 - like the others
    """One container id on many connections, with durable subscriptions, dynamic nodes and ended sessions."""
    container, others = f"container-{chance.randrange(3)}", list[Peer]()
    for number in range(20):
        one = await connect(victim, chance, tls=False)
        others.append(one)
        try:
            await enter(victim, one, container)
            kept = receiver(0, "topic:guest.t", durable=2, expiry_policy=Symbol("never"))
            await one.write(encoded(kept._replace(name=f"sub{number % 4}")))
            await one.write(encoded(receiver(1, QUEUES[0])._replace(source=composite(Source(dynamic=True)))))
            ended = chance.choice((Detach(0, True), Detach(0), Detach(1, True), End()))
            await one.write(encoded(ended), encoded(ended))
        except OSError:
            continue
    await asyncio.sleep(chance.random() * 0.3)
    for one in others:
        one.writer.transport.abort()


AMQP_ATTACKS: tuple[Attack, ...] = (
    amqp_unfinished, amqp_links, amqp_window, amqp_deaf, amqp_transactions, amqp_numbers, amqp_containers,
)  # fmt: skip
