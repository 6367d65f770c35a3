"""What a hostile client does over MQTT 3.1.1 and 5."""

import asyncio
import random
from contextlib import suppress

from broker.server.mqtt.mqtt_client import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Properties,
    Will,
    acknowledge,
    publish,
)
from broker.server.mqtt.mqtt_client import (
    connect as connect_packet,
)
from mqlab.wire.mqtt.packets import packet, text
from mqlab.wire.mqtt.properties import Property

from .mqtt_payloads import begun
from .peers import BODY, Attack, Peer, Victim, connect

# The queues of a guest, as MQTT names them, and topics: a guest has no right to those.
QUEUES = [f"$queue/guest/{number}" for number in range(3)]
TOPICS = [f"hostile/{number}" for number in range(20)]
FOREVER: Properties = {Property.SESSION_EXPIRY: 2**32 - 1}


async def enter(
    victim: Victim, peer: Peer, client_id: str = "", version: int = 5, *, clean: bool = True, will: Will | None = None,
    properties: Properties | None = None,
) -> None:  # fmt: skip
    await peer.write(connect_packet(client_id, version, clean=clean, will=will, properties=properties, **victim.login))
    await peer.read(5)


def subscribe(*filters: str, options: int = 1, version: int = 5) -> bytes:
    head = b"\0\1" + (b"\0" if version == 5 else b"")
    return packet(0x82, head + b"".join(text(name) + bytes((options,)) for name in filters))


async def mqtt_unfinished(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Long messages of which a part comes, and a part more, and then no more."""
    version = chance.choice((4, 5))
    await enter(victim, peer, version=version)
    size = chance.choice((1, 4, 8, 15)) * 1024 * 1024
    await peer.write(begun(0x30, size), text(QUEUES[0]), BODY * 100)
    for _ in range(chance.randrange(10)):
        await peer.write(BODY * chance.choice((1, 50)))
        await asyncio.sleep(0.05)
    await asyncio.sleep(chance.random())


async def mqtt_unreleased(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Messages with QoS 2 that the client never releases, or again and again, in a session that is kept or not."""
    version, kept = chance.choice((4, 5)), chance.random() < 0.5
    properties: Properties = FOREVER if kept and version == 5 else {}
    await enter(victim, peer, f"unreleased-{chance.randrange(20)}", version, clean=not kept, properties=properties)
    topic = chance.choice((*QUEUES, TOPICS[0]))
    for begin in range(1, 12_000, 500):
        numbers = range(begin, begin + 500)
        await peer.write(b"".join(publish(topic, b"unreleased", 2, number, version=version) for number in numbers))
        if chance.random() < 0.1:
            await peer.write(b"".join(acknowledge(PUBREL, number) for number in numbers) * 3)
        await peer.read_all(0.01)
    await asyncio.sleep(chance.random())


async def mqtt_deaf(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Subscriptions, and messages for them, of a client that does not read or does not acknowledge."""
    version, most = chance.choice((4, 5)), chance.choice((1, 100, 65535))
    properties: Properties = {Property.RECEIVE_MAXIMUM: most} if version == 5 else {}
    await enter(victim, peer, version=version, properties=properties)
    await peer.write(subscribe("hostile/#", *QUEUES, options=chance.randrange(3), version=version))
    for number in range(1, 300):
        topic = chance.choice((*QUEUES, *TOPICS))
        await peer.write(publish(topic, BODY, chance.choice((0, 0, 1, 2)), number, version=version))
    await (asyncio.sleep if chance.random() < 0.5 else peer.read_all)(chance.random())


async def mqtt_subscriptions(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Subscriptions without end, of every kind, that come and go."""
    await enter(victim, peer, f"many-{chance.randrange(4)}", properties=chance.choice((FOREVER, {})))
    kinds = ("many/{}", "many/+/{}", "many/{}/#", "$share/g{}/many/0", "#", "+/{}", "$queue/guest/{}", "$SYS/#")
    for begin in range(0, 600, 50):
        names = [chance.choice(kinds).format(number % 100) for number in range(begin, begin + 50)]
        await peer.write(subscribe(*names, options=chance.choice((0, 1, 2, 0x10))))
        if chance.random() < 0.7:
            await peer.write(packet(0xA2, b"\0\2\0" + b"".join(map(text, names))))
        await peer.write(publish("many/0/1", b"to all of them"))
        await peer.read_all(0.01)


async def mqtt_retained(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Retained messages up to the memory for them, and subscriptions that get all of them."""
    await enter(victim, peer)
    for number in range(1, 60):
        body = chance.choice((b"", BODY * chance.randrange(1, 20)))
        topic = f"hostile/{chance.randrange(300)}"
        await peer.write(publish(topic, body, chance.randrange(3), number, retain=True))
        if number % 10 == 0:
            await peer.write(subscribe("hostile/#", options=chance.randrange(3)))
    await peer.read_all(chance.random())


async def mqtt_sessions(victim: Victim, chance: random.Random, peer: Peer) -> None:  # noqa: ARG001 - like the others
    """Sessions that are kept for ever, each with a will and with subscriptions, of clients that vanish."""
    for _ in range(30):
        one = await connect(victim, chance, tls=False)
        version = chance.choice((4, 5))
        properties: Properties = FOREVER if version == 5 else {}
        delay: Properties = {Property.WILL_DELAY: chance.choice((0, 1, 2**32 - 1))} if version == 5 else {}
        will = Will(chance.choice(QUEUES), chance.randbytes(12_000), chance.randrange(3), False, delay)
        with suppress(OSError):
            client_id = f"kept-{chance.randrange(10**9)}"
            await enter(victim, one, client_id, version, clean=False, will=will, properties=properties)
            if chance.random() < 0.1:
                await one.write(subscribe(chance.choice(QUEUES), version=version))
        one.writer.transport.abort()


async def mqtt_takeovers(victim: Victim, chance: random.Random, peer: Peer) -> None:  # noqa: ARG001 - like the others
    """One client id on many connections, each of which takes the session over, with messages under way."""
    client_id, others = f"taken-{chance.randrange(3)}", list[Peer]()
    for number in range(1, 30):
        one = await connect(victim, chance, tls=False)
        others.append(one)
        kept = chance.random() < 0.7
        will = Will(QUEUES[0], b"taken over", 1, kept) if chance.random() < 0.3 else None
        with suppress(OSError):
            properties: Properties = FOREVER if kept else {}
            await enter(victim, one, client_id, clean=not kept, will=will, properties=properties)
            await one.write(subscribe(*QUEUES[:2], TOPICS[0], options=2))
            for topic in (QUEUES[0], TOPICS[0]):
                await one.write(publish(topic, BODY, 2, number), publish(topic, BODY, 1, number + 100))
            if chance.random() < 0.5:
                await one.write(acknowledge(PUBREL, number), acknowledge(PUBREC, 1 + number % 5))
    await asyncio.sleep(chance.random() * 0.3)
    for one in others:
        one.writer.transport.abort()


async def mqtt_acknowledgements(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Acknowledgements of messages that are not under way, twice, and in any order."""
    version = chance.choice((4, 5))
    await enter(victim, peer, version=version)
    await peer.write(subscribe(*QUEUES, options=2, version=version))
    kinds = (PUBACK, PUBREC, PUBREL, PUBCOMP)
    for number in range(1, 60):
        await peer.write(publish(chance.choice(QUEUES), b"small", chance.randrange(3), number, version=version))
        reason = chance.choice((None, 0, 0x80)) if version == 5 else None
        ids = [chance.choice((chance.randrange(1, 65536), number)) for _ in range(100)]
        await peer.write(b"".join(acknowledge(chance.choice(kinds), one, reason) for one in ids))
    await peer.read_all(0.2)


MQTT_ATTACKS: tuple[Attack, ...] = (
    mqtt_unfinished, mqtt_unreleased, mqtt_deaf, mqtt_subscriptions, mqtt_retained, mqtt_sessions, mqtt_takeovers,
    mqtt_acknowledgements,
)  # fmt: skip
