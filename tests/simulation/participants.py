"""The clients and settings of a simulation, chosen by its seed."""

from __future__ import annotations

import random
from pathlib import Path

from mqlab.broker.policy import Policies, Policy, PolicyRule
from mqlab.broker.settings import Level, Settings

from .administrator import Administrator
from .books import Books
from .client import Client, Mode
from .receiver import Receiver, Source
from .sender import Habits, Sender

_MODES: tuple[Mode, ...] = ("auto", "dups_ok", "client", "individual", "transacted", "transacted")
_RULES = (
    PolicyRule("queue:small", {"queue_limit": 2500}),
    PolicyRule("queue:strict", {"message_limit": 8, "when_full": "refuse"}),
    PolicyRule("queue:saved", {"save_extent": 500}),
    PolicyRule("queue:retried", {"redelivery_limit": 2, "dead_letters": "queue:dead"}),
    PolicyRule("queue:mortal", {"expired": "queue:late"}),
    PolicyRule("topic:dropped", {"queue_limit": 1500, "when_full": "drop-oldest"}),
)
_QUEUES = {
    "queue:plain": Habits(duplicate=0.4),
    "queue:small": Habits(priority=0.3, duplicate=0.2),
    "queue:strict": Habits(colour=0.8),
    "queue:saved": Habits(batch=0.2, persistent=0.5),
    "queue:retried": Habits(duplicate=0.6, batch=0.2),
    "queue:mortal": Habits(expiry=0.5, priority=0.2),
    "queue:late too": Habits(expiry=0.3, delay=0.4),
    "queue:by key": Habits(key=0.9),
    "queue:groups": Habits(group=0.7),
    "queue:once": Habits(duplicate=0.8, confirmed=0.9, persistent=1.0),
}
_TOPICS = ("topic:news.today", "topic:news.old", "topic:dropped")
_SUBSCRIBED = (
    Source("topic:news.*", durable="all"),
    Source("topic:news.today", durable="red", colour="red"),
    Source("topic:news.today", durable="crowd", shared="crowd", prefetch=2),
    Source("topic:news.*", prefetch=3),
    Source("topic:dropped", durable="dropped", prefetch=1),
)


def settings(folder: Path, chance: random.Random, seed: int) -> Settings:
    """Far below what a person may choose: files and limits are reached by a few messages."""
    monitoring: tuple[Level, ...] = ("low", "high", "off")
    made = Settings(
        data=folder, memory_limit=chance.choice((6_000, 30_000, 1_000_000)), producer_window=1500,
        group_delay=chance.choice((0, 0, 200)), preallocate=chance.random() < 0.7,
        sync="off" if chance.random() < 0.1 else "on", policy=Policy(redelivery_limit=0), policies=Policies(_RULES),
        monitoring=monitoring[seed % 3],
    )  # fmt: skip
    segment_size = chance.choice((800, 1500, 4000))
    object.__setattr__(made, "segment_size", segment_size)
    object.__setattr__(made, "log_length", segment_size * chance.choice((1, 2, 4)))
    return made


def cast(chance: random.Random, books: Books) -> list[Client]:
    queues = chance.sample([*_QUEUES], 4)
    clients: list[Client] = [Administrator(chance, books)]
    for name in (*queues, *queues[:2], *chance.sample(_TOPICS, 2)):
        client = Client(f"producer {len(clients)}", chance, books, chance.choice(("auto", "auto", "transacted")))
        client.sender = Sender(client, name, _QUEUES.get(name, Habits(colour=0.6)))
        clients.append(client)
    for name in (*queues, *queues[:3]):
        _add_consumer(clients, chance, books, _source(name, chance))
    for source in chance.sample((*_SUBSCRIBED, _SUBSCRIBED[2]), 4):
        _add_consumer(clients, chance, books, source)
    # Somebody who passes on what it gets, both in one transaction.
    _add_consumer(clients, chance, books, Source(queues[0]), ("transacted",))
    clients[-1].sender = Sender(clients[-1], queues[1], _QUEUES[queues[1]])
    return clients


def _add_consumer(
    clients: list[Client], chance: random.Random, books: Books, source: Source, modes: tuple[Mode, ...] = _MODES
) -> None:
    client = Client(f"consumer {len(clients)}", chance, books, chance.choice(modes))
    client.receiver = Receiver(client, source)
    clients.append(client)


def _source(name: str, chance: random.Random) -> Source:
    if name == "queue:by key" and chance.random() < 0.7:
        return Source(name, 0, by_key=True)
    colour = "red" if chance.random() < 0.2 else ""
    return Source(name, chance.choice((0, 1, 5, 20)), colour, exclusive=chance.random() < 0.1)
