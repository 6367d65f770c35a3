"""What a hostile client does: each attack is one connection, or some, for about a second."""

import asyncio
import random
from contextlib import suppress

from broker.server.mqtt.mqtt_client import connect as mqtt_connect
from broker.server.stomp.stomp_clients import frame as stomp_frame
from mqlab.broker import limits
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import encode
from mqlab.wire.native.frames import Flag, Kind

from . import amqp_payloads, mqtt_payloads, payloads
from .amqp_attacks import AMQP_ATTACKS
from .frames import NUMBERS
from .mqtt_attacks import MQTT_ATTACKS
from .peers import BODY, QUEUES, Attack, Peer, Victim, connect


async def enter(victim: Victim, peer: Peer) -> None:
    await peer.write(payloads.native_hello(victim.login))
    await peer.read(5)


def send(link: int, first: int, body: bytes = BODY, flags: int = 0) -> bytes:
    payload = encode([body])
    flags |= payload.form
    head = native.header(Kind.SEND, flags=flags, link=link, first=first, amount=1, length=len(payload.data))
    return head + bytes(payload.data)


def open_session(number: int, *, transacted: bool = False) -> bytes:
    return native.frame(Kind.OPEN_SESSION, {"transacted": transacted}, session=number)


def open_link(kind: Kind, link: int, session: int = 1, room: int = 0, **said: object) -> bytes:
    return native.frame(kind, said, session=session, link=link, amount=room)


# Before a login


async def noise(victim: Victim, chance: random.Random, peer: Peer) -> None:
    kinds = (
        payloads.native_before, payloads.stomp_before, payloads.websocket_before, mqtt_payloads.mqtt_before,
        amqp_payloads.amqp_before,
    )  # fmt: skip
    await peer.write(chance.choice(kinds)(chance, victim.login))
    await peer.read_all(0.2)


async def half_frames(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Begins of long frames, a byte at a time."""
    greeting = mqtt_connect("half", **victim.login)
    begin = chance.choice((
        (native.header(Kind.HELLO, length=limits.FRAME_BEFORE_HELLO),),
        (payloads.native_hello(victim.login), open_session(1), native.header(Kind.ASK, length=limits.FRAME)),
        (greeting[: chance.randrange(1, len(greeting))],), (mqtt_payloads.begun(0x10, limits.MQTT_CONNECT),),
        (greeting, mqtt_payloads.begun(0x30, chance.choice(mqtt_payloads.LONG_PACKETS))),
        (amqp_payloads.amqp_header(victim.login)[: chance.randrange(4, 12)],),
        (amqp_payloads.amqp_header(victim.login), amqp_payloads.amqp_open(victim.login),
         amqp_payloads.begun(chance.choice((9, limits.AMQP_FRAME)))),
    ))  # fmt: skip
    await peer.write(begin[0])
    if len(begin) > 1:
        await peer.read(5)
        await peer.write(*begin[1:])
    for _ in range(20):
        await peer.write(b" ")
        await asyncio.sleep(0.02)


async def silence(victim: Victim, chance: random.Random, peer: Peer) -> None:  # noqa: ARG001 - like the others
    """Connections over TLS that say nothing, or begin to, and stay."""
    silent = [await connect(victim, chance, victim.tls_port, tls=False) for _ in range(20)]
    for one in silent:
        with suppress(OSError):
            await one.write(chance.choice((b"", b"\x16\x03\x01", chance.randbytes(100))))
    await asyncio.sleep(chance.random() * 2)
    for one in silent:
        one.writer.transport.abort()


async def storm(victim: Victim, chance: random.Random, peer: Peer) -> None:  # noqa: ARG001 - like the others
    for _ in range(40):
        one = await connect(victim, chance, tls=False)
        greeting = chance.choice((
            b"", payloads.native_hello(victim.login), payloads.stomp_connect(victim.login),
            mqtt_payloads.mqtt_connect(chance, victim.login),
            amqp_payloads.amqp_header(victim.login) + amqp_payloads.amqp_open(victim.login, "storm"),
        ))  # fmt: skip
        one.writer.write(greeting)
        one.writer.transport.abort()


async def wrong_passwords(victim: Victim, chance: random.Random, peer: Peer) -> None:  # noqa: ARG001 - like the others
    wrong: payloads.Login = {
        "user": chance.choice(("owner", "guest", "nobody")),
        "password": f"wrong {chance.random()}",
    }
    await peer.write(chance.choice((
        payloads.native_hello(wrong), payloads.stomp_connect(wrong), mqtt_payloads.mqtt_connect(chance, wrong),
        amqp_payloads.amqp_header(wrong),
    )))  # fmt: skip
    await peer.read_all(1)


async def page(victim: Victim, chance: random.Random, peer: Peer) -> None:  # noqa: ARG001 - like the others
    one = await connect(victim, chance, victim.metrics_port, tls=False)
    try:
        await one.write(*payloads.http(chance, victim.login))
        await one.read_all(0.5)
    finally:
        one.writer.transport.abort()


# After a login


async def fuzz(victim: Victim, chance: random.Random, peer: Peer) -> None:
    protocol = chance.randrange(4)
    if protocol == 0:
        await enter(victim, peer)
        await peer.write(*payloads.native_after(chance, victim.login))
    elif protocol == 1:
        await peer.speak_stomp(chance, victim.login)
        await peer.write(*payloads.stomp_after(chance, victim.login))
    else:
        greeting, after = (
            (mqtt_payloads.mqtt_connect(chance, victim.login), mqtt_payloads.mqtt_after),
            (amqp_payloads.amqp_header(victim.login), amqp_payloads.amqp_after),
        )[protocol - 2]
        await peer.write(greeting)
        await peer.read(5)
        await peer.write(*after(chance, victim.login))
    await peer.read_all(0.2)


async def questions(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Thousands of questions at once, whose answers are read late or never."""
    await enter(victim, peer)
    asked = [native.frame(Kind.ASK, {"ask": word, "name": QUEUES[0]}) for word in ("list", "status", "show", "trace")]
    one = b"".join(asked)
    await peer.write(*[one] * 100)
    await asyncio.sleep(chance.random())
    await peer.read_all(chance.choice((0, 0.5)))


async def transactions(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Many open ones, none of which is committed."""
    await enter(victim, peer)
    for session in range(1, 40):
        link = session
        await peer.write(open_session(session, transacted=True))
        await peer.write(open_link(Kind.OPEN_PRODUCER, link, session, destination=chance.choice(QUEUES)))
        await peer.write(*[send(link, number + 1, BODY * 8) for number in range(20)])
    await asyncio.sleep(chance.random())
    await peer.read_all(0.2)


async def receipts(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Receipts, and messages, to a client that does not read."""
    await peer.speak_stomp(chance, victim.login)
    name = f"/queue/{QUEUES[1].partition(':')[2]}"
    await peer.write(stomp_frame("SUBSCRIBE", id="1", destination=name, ack="auto"))
    await peer.write(*[stomp_frame("SEND", BODY, destination=name, receipt="r" * 200) for _ in range(300)])
    await asyncio.sleep(chance.random())


async def waiting_receives(victim: Victim, chance: random.Random, peer: Peer) -> None:
    await enter(victim, peer)
    await peer.write(open_session(1), open_link(Kind.OPEN_CONSUMER, 1, destination=chance.choice(QUEUES)))
    for begin in range(0, 40_000, 1000):
        ids = [b"%d-%d" % (begin + number, chance.randrange(10**9)) for number in range(1000)]
        await peer.write(b"".join(native.header(Kind.RECEIVE, link=1, length=len(one)) + one for one in ids))
    await asyncio.sleep(chance.random())


async def temporaries(victim: Victim, chance: random.Random, peer: Peer) -> None:
    await enter(victim, peer)
    await peer.write(b"".join(native.frame(Kind.ASK, {"ask": "temporary"}, first=number) for number in range(1500)))
    await peer.read_all(chance.random())


async def browsers(victim: Victim, chance: random.Random, peer: Peer) -> None:
    await enter(victim, peer)
    await peer.write(open_session(1))
    name = chance.choice(QUEUES)
    for link in range(1, 300):
        await peer.write(open_link(Kind.OPEN_CONSUMER, link, room=1000, destination=name, browse=True))
    await asyncio.sleep(chance.random())
    await peer.read_all(0.3)


async def sessions_and_links(victim: Victim, chance: random.Random, peer: Peer) -> None:
    await enter(victim, peer)
    await peer.write(b"".join(open_session(number) for number in range(1, limits.SESSIONS_A_CONNECTION + 10)))
    kinds = (Kind.OPEN_PRODUCER, Kind.OPEN_CONSUMER)
    for begin in range(1, limits.LINKS_A_CONNECTION + 10, 500):
        links = range(begin, begin + 500)
        await peer.write(b"".join(open_link(chance.choice(kinds), link, destination=QUEUES[2]) for link in links))
        await peer.read_all(0.01)


async def guesses(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """The client id of somebody else, and the names of his temporary queues."""
    said = {"version": native.VERSION, "client_id": "good", "take_over": True, **victim.login}
    if victim.login and chance.random() < 0.5:
        await peer.write(native.frame(Kind.HELLO, said))
        await peer.read(5)
        return
    await enter(victim, peer)
    await peer.write(open_session(1))
    names = [f"queue:temporary.{chance.choice((number, f'{number}.{number}'))}" for number in range(1, 200)]
    await peer.write(b"".join(
        open_link(Kind.OPEN_CONSUMER, link, room=10, destination=name) for link, name in enumerate(names, 1)
    ))  # fmt: skip
    await peer.read_all(0.3)


async def slow_reader(victim: Victim, chance: random.Random, peer: Peer) -> None:  # noqa: ARG001 - like the others
    await enter(victim, peer)
    name = QUEUES[0]
    await peer.write(open_session(1), open_link(Kind.OPEN_PRODUCER, 1, destination=name))
    await peer.write(open_link(Kind.OPEN_CONSUMER, 2, room=1000, destination=name))
    await peer.write(*[send(1, number + 1, BODY * 4) for number in range(20)])
    for _ in range(20):
        async with asyncio.timeout(0.5):
            await peer.reader.read(1)
        await asyncio.sleep(0.02)


async def absurd_ranges(victim: Victim, chance: random.Random, peer: Peer) -> None:
    await enter(victim, peer)
    name = chance.choice(QUEUES)
    await peer.write(open_session(1), open_link(Kind.OPEN_PRODUCER, 1, destination=name))
    await peer.write(open_link(Kind.OPEN_CONSUMER, 2, room=1000, destination=name))
    for number in range(100):
        kind = chance.choice((Kind.ACKNOWLEDGE, Kind.ACKNOWLEDGE_ROWS, Kind.ROLLBACK))
        amount = chance.choice((0, 1, 1000, 2**32 - 1))
        if kind == Kind.ACKNOWLEDGE:
            amount = chance.choice((0, 1))
        await peer.write(send(1, number + 1, b"small"))
        await peer.write(native.header(kind, link=2, first=chance.choice(NUMBERS), amount=amount))
    await peer.read_all(0.2)


async def subscribing(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Subscribe and unsubscribe as fast as can be, with what is under way."""
    await peer.speak_stomp(chance, victim.login)
    name = f"/queue/{chance.choice(QUEUES).partition(':')[2]}"
    for number in range(60):
        await peer.write(
            stomp_frame("SUBSCRIBE", id=str(number), destination=name, ack=chance.choice(("auto", "client"))),
            stomp_frame("SEND", b"x", destination=name), stomp_frame("UNSUBSCRIBE", id=str(number)),
        )  # fmt: skip
    await peer.write(stomp_frame("DISCONNECT", receipt="r"))
    await peer.read_all(0.3)


async def durable(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Subscriptions that last; a guest has no right to a topic."""
    said = {"version": native.VERSION, "client_id": f"guest-{chance.randrange(5)}", "take_over": True, **victim.login}
    await peer.write(native.frame(Kind.HELLO, said))
    await peer.read(5)
    await peer.write(open_session(1))
    for link in range(1, 9):
        name = f"d{link}"
        selector = chance.choice(("", "a = 1"))
        about = {"destination": "topic:guest.t", "durable": name, "selector": selector}
        await peer.write(native.frame(Kind.OPEN_CONSUMER, about, session=1, link=link, amount=1))
        await peer.write(native.header(Kind.CLOSE, link=link))
        await peer.write(native.frame(Kind.ASK, {"ask": "unsubscribe", "name": name}, first=link))
    await peer.read_all(0.3)


async def idle_subscriptions(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Each message counts for every subscription, and none takes one; the publisher stays for a while."""
    await enter(victim, peer)
    topic = f"topic:guest.t{chance.randrange(3)}"
    await peer.write(open_session(1), open_link(Kind.OPEN_PRODUCER, 1, destination=topic))
    await peer.write(*[open_link(Kind.OPEN_CONSUMER, link, destination=topic) for link in range(2, 402)])
    for number in range(40):
        await peer.write(send(1, number + 1, BODY * 4))
    await peer.read_all(1.0)


async def selectors(victim: Victim, chance: random.Random, peer: Peer) -> None:
    await enter(victim, peer)
    await peer.write(open_session(1), open_link(Kind.OPEN_PRODUCER, 1, destination=QUEUES[2]))
    texts = (
        " OR ".join(f"a{number} LIKE '%_%_%x'" for number in range(150)), "(" * 2000, "a = 1 AND " * 380 + "b = 2",
        "a LIKE '" + "%_" * 1000 + "'", "NOT " * 1000 + "TRUE", "a IN (" + ", ".join(["'x'"] * 700) + ")",
    )  # fmt: skip
    for link in range(2, 40):
        text = chance.choice(texts)[: limits.SELECTOR + chance.randrange(2)]
        await peer.write(open_link(Kind.OPEN_CONSUMER, link, room=10, destination=QUEUES[2], selector=text))
    await peer.write(*[send(1, number + 1, b"x") for number in range(50)])
    await peer.read_all(0.3)


async def persistent(victim: Victim, chance: random.Random, peer: Peer) -> None:
    """Confirmed messages to a queue that is full, in a burst."""
    await enter(victim, peer)
    await peer.write(open_session(1), open_link(Kind.OPEN_PRODUCER, 1, destination=chance.choice(QUEUES)))
    flags = Flag.CONFIRM | Flag.PERSISTENT
    await peer.write(*[send(1, number + 1, BODY, flags) for number in range(40)])
    await peer.read_all(0.3)


ATTACKS: tuple[Attack, ...] = (
    noise, half_frames, silence, storm, wrong_passwords, page, fuzz, questions, transactions, receipts,
    waiting_receives, temporaries, browsers, sessions_and_links, guesses, slow_reader, absurd_ranges, subscribing,
    durable, idle_subscriptions, selectors, persistent, *MQTT_ATTACKS, *AMQP_ATTACKS,
)  # fmt: skip
