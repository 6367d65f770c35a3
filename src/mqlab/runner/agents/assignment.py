"""The roles of a point, and their assignment to agents."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from mqlab.drivers import DRIVERS, ReceiverOptions
from mqlab.events.schema import RoleRow
from mqlab.json_values import JsonObject
from mqlab.study import Point

RoleKind = Literal["producer", "consumer", "requester", "responder"]
# Active roles send by themselves and come to an end; the others only react.
ACTIVE = ("producer", "requester")

_MAX_PREFETCH = 500_000
# The prefetch of a consumer that shares its messages with no other: some bytes, within these numbers of messages.
_MIN_PREFETCH, _MAX_OWN_PREFETCH, _PREFETCH_BYTES = 1024, 65_536, 16 << 20
_SHARED_PREFETCH = 64
_MIN_PACKED_PREFETCH = 16
# A consumer with a rate limit prefetches what it consumes in this time.
_LIMITED_PREFETCH_SECONDS = 0.05
# In a run with faults, a system that does not notice the end of a connection waits so long for acknowledgements: the
# default of JetStream. But not longer than half of the drain phase, since what comes after it counts as lost.
_REDELIVERY_SECONDS = 30.0


@dataclass(frozen=True)
class Role:
    """`subscription` is 0 on a queue and the consumer's own number on a topic.

    A requester sends to `destination` and receives from `reply_destination`; a responder the other way round.
    """

    role: RoleKind
    number: int
    destination: int
    subscription: int = 0

    @property
    def reply_destination(self) -> int:
        return self.destination + 1

    def rows(self, agent: int) -> list[RoleRow]:
        """Its rows in the events: a requester or responder is a producer and a consumer."""
        if self.role in ("producer", "consumer"):
            return [RoleRow(agent=agent, **asdict(self))]
        requests, replies = ("producer", "consumer") if self.role == "requester" else ("consumer", "producer")
        return [
            RoleRow(agent=agent, role=role, number=self.number, destination=destination, subscription=0)
            for role, destination in ((requests, self.destination), (replies, self.reply_destination))
        ]


@dataclass(frozen=True)
class Assignment:
    """Everything that an agent must know about a run."""

    run: int
    agent: int
    point: Point
    driver: str
    address: str
    roles: tuple[Role, ...]
    # The run folder. None: the agent records nothing (only for measuring the cost of recording).
    folder: str | None
    # The name of the broker that has the queues of producers and requesters, if it is not the one they connect to.
    remote: str = ""
    # Options of the driver.
    options: Mapping[str, str] = field(default_factory=dict)
    # A tag for names of destinations, of the system and of the extension of the run.
    tag: str = ""
    # Records in each message; 1: the messages travel message by message.
    packed: int = 1

    def destination(self, role: Role) -> str:
        broker = f"@{self.remote}" if self.remote and role.role in ACTIVE else ""
        return destination_name(self.run, self.point, role.destination, self.tag) + broker

    def reply_destination(self, role: Role) -> str:
        return destination_name(self.run, self.point, role.reply_destination, self.tag)

    def application(self, role: Role) -> str:
        first = self.point.requesters if role.role == "responder" else 0
        return f"{role.role.capitalize()}{role.number - first}"

    def connection(self, role: Role) -> str:
        """The key of the role's connection: roles with the same key share one."""
        if role.role == "requester" and self.point.clients:
            return f"client {role.number % self.point.clients}"
        return "shared" if self.point.connections == "shared" else self.application(role)

    def receiving(self, role: Role) -> ReceiverOptions:
        point = self.point
        durable = f"run-{self.tag}{self.run}-consumer-{role.number}" if point.durable else ""
        acknowledge = "transacted" if point.transaction else point.acknowledge
        redeliver_after_s = min(_REDELIVERY_SECONDS, point.phases.drain / 2) if point.faults else None
        return ReceiverOptions(
            self.prefetch, acknowledge, point.selector, durable, self.packed > 1, redeliver_after_s
        )  # fmt: skip

    @property
    def prefetch(self) -> int:
        """In messages; if the protocol has batches, in records of whole packed messages."""
        if self.packed == 1 or self.point.prefetch is not None:
            return prefetch(self.point)
        messages = max(_MIN_PACKED_PREFETCH, prefetch(self.point) // self.packed)
        if not DRIVERS[self.driver].has_batches:
            return messages
        return max(1, min(messages, _MAX_PREFETCH // self.packed)) * self.packed

    @property
    def max_send(self) -> int:
        """The most messages that a producer passes to one call of its driver."""
        point, driver = self.point, DRIVERS[self.driver]
        if self.packed > 1:
            return self.packed
        if point.send == "confirmed" and not point.transaction:
            return point.batch
        return max(1, min(driver.max_send_messages, driver.max_send_bytes // point.size))

    @property
    def is_bounded(self) -> bool:
        """Whether the send-ahead of its producers is bounded."""
        return self.point.is_unthrottled and DRIVERS[self.driver].reports_accepted

    def to_json(self) -> JsonObject:
        return {**asdict(self), "point": self.point.to_json(), "roles": [asdict(role) for role in self.roles]}

    @classmethod
    def from_json(cls, data: JsonObject) -> "Assignment":
        roles = tuple(Role(**role) for role in data["roles"])
        return cls(**{**data, "point": Point.from_json(data["point"]), "roles": roles})


def destination_name(run: int, point: Point, number: int, tag: str = "") -> str:
    """Each run has its own names, so that a message of an earlier run cannot arrive in a later one."""
    return f"{point.domain}:run-{tag}{run}-{point.domain}-{number}"


def prefetch(point: Point) -> int:
    """The prefetch of a consumer or responder: the point's, or a default that suits the point."""
    if point.prefetch is not None:
        return point.prefetch
    if point.pattern == "request-reply":
        # Enough that no requester waits while a responder is idle. Not more: other responders cannot get a message
        # that one has prefetched.
        return -(-point.requesters // point.responders)
    if point.consume_rate is not None:
        return max(1, min(_MAX_PREFETCH, round(point.consume_rate / point.consumers * _LIMITED_PREFETCH_SECONDS)))
    # Enough to keep a consumer busy during a round trip, few enough to bound memory. Other consumers of a queue cannot
    # get a message that one has prefetched.
    if point.domain == "topic" or point.consumers <= point.destinations:
        return max(_MIN_PREFETCH, min(_MAX_OWN_PREFETCH, _PREFETCH_BYTES // point.size))
    return _SHARED_PREFETCH


def roles_of(point: Point) -> list[Role]:
    """All roles of a point. Producer i and consumer i use destination i modulo the number of destinations.

    Requesters and responders share pairs of queues in the same way. A point that only sends has no consumers.
    """
    destinations = point.destinations
    if point.pattern == "request-reply":
        requesters = [Role("requester", n, n % destinations * 2) for n in range(point.requesters)]
        first = point.requesters
        return requesters + [Role("responder", first + n, n % destinations * 2) for n in range(point.responders)]
    producers = [Role("producer", n, n % destinations) for n in range(point.producers)]
    if point.load == "send":
        return producers
    topic = point.domain == "topic"
    return producers + [Role("consumer", n, n % destinations, n if topic else 0) for n in range(point.consumers)]


def assign_roles(point: Point, agents: int) -> list[tuple[Role, ...]]:
    """The roles of each agent. One agent plays all; of several, the first half plays the active roles.

    With bindings the first agent plays all, since it hosts the broker; with two brokers the first two agents play.
    """
    playing = {"client": agents, "bindings": 1, "distributed": 2}[point.topology]
    active_agents = max(1, playing // 2)
    assigned: list[list[Role]] = [[] for _ in range(agents)]
    for role in roles_of(point):
        number = role.number
        if playing == 1:
            assigned[0].append(role)
        elif role.role in ACTIVE:
            # Requesters that share a connection need the same agent.
            assigned[(number % (point.clients or number + 1)) % active_agents].append(role)
        else:
            assigned[active_agents + number % (playing - active_agents)].append(role)
    return [tuple(roles) for roles in assigned]
