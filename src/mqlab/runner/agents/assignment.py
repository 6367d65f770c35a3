"""Who does what in a run: the roles of a point, dealt out to agents."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from mqlab.drivers import DRIVERS, ReceiverOptions
from mqlab.study import Point

RoleKind = Literal["producer", "consumer", "requester", "responder"]
# Those who begin; the others answer or only receive.
ACTIVE = ("producer", "requester")

_MOST_PREFETCH = 500_000
# A consumer with a brake gets no more ahead than it takes in this time.
_BRAKED_SECONDS = 0.05


@dataclass(frozen=True)
class Role:
    """`number` and `subscription` as in the events: 0 on a queue, the consumer's own on a topic.

    A requester sends to `destination` and receives from `replies`; a responder the other way round.
    """

    role: RoleKind
    number: int
    destination: int
    subscription: int = 0

    @property
    def replies(self) -> int:
        return self.destination + 1

    def rows(self) -> list[dict[str, Any]]:
        """As the events have it: who sends and receives is a producer and a consumer."""
        if self.role in ("producer", "consumer"):
            return [asdict(self)]
        requests, replies = ("producer", "consumer") if self.role == "requester" else ("consumer", "producer")
        return [
            {"role": requests, "number": self.number, "destination": self.destination, "subscription": 0},
            {"role": replies, "number": self.number, "destination": self.replies, "subscription": 0},
        ]


@dataclass(frozen=True)
class Assignment:
    """All that an agent needs to know of a run."""

    run: int
    agent: int
    point: Point
    driver: str
    address: str
    roles: tuple[Role, ...]
    # The run folder. None: nothing is recorded (only to measure what recording costs).
    folder: str | None
    # The broker whose queues producers and requesters send to, if it is another than theirs.
    remote: str = ""
    # For the driver, beside the address.
    options: Mapping[str, str] = field(default_factory=dict)
    # Of the system, for the names of destinations.
    tag: str = ""

    def destination(self, role: Role) -> str:
        far = f"@{self.remote}" if self.remote and role.role in ACTIVE else ""
        return destination_name(self.run, self.point, role.destination, self.tag) + far

    def replies(self, role: Role) -> str:
        return destination_name(self.run, self.point, role.replies, self.tag)

    def application(self, role: Role) -> str:
        first = self.point.requesters if role.role == "responder" else 0
        return f"{role.role.capitalize()}{role.number - first}"

    def connection(self, role: Role) -> str:
        """Roles with the same word share a connection."""
        if role.role == "requester" and self.point.clients:
            return f"client {role.number % self.point.clients}"
        return "shared" if self.point.connections == "shared" else self.application(role)

    def receiving(self, role: Role) -> ReceiverOptions:
        point = self.point
        durable = f"run-{self.tag}{self.run}-consumer-{role.number}" if point.durable else ""
        acknowledge = "transacted" if point.transaction else point.acknowledge
        return ReceiverOptions(room(point), acknowledge, point.selector, durable)

    @property
    def is_bounded(self) -> bool:
        """Whether its producers are ahead of the system no further than a Lead allows."""
        return self.point.is_unthrottled and DRIVERS[self.driver].reports_accepted

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "point": self.point.to_json(), "roles": [asdict(role) for role in self.roles]}

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> "Assignment":
        roles = tuple(Role(**role) for role in said["roles"])
        return cls(**{**said, "point": Point.from_json(said["point"]), "roles": roles})


def destination_name(run: int, point: Point, number: int, tag: str = "") -> str:
    """Names are new for each run, so nothing left over from another run can be mistaken."""
    return f"{point.domain}:run-{tag}{run}-{point.domain}-{number}"


def room(point: Point) -> int:
    """Messages that a consumer or responder has room for, unless the point says it."""
    if point.prefetch is not None:
        return point.prefetch
    if point.pattern == "request-reply":
        # So many that no requester waits while a responder is idle, and no more: what one has, no other can answer.
        return -(-point.requesters // point.responders)
    if point.consume_rate is not None:
        return max(1, min(_MOST_PREFETCH, round(point.consume_rate / point.consumers * _BRAKED_SECONDS)))
    # As many batches ahead as keep a consumer busy while its word travels, few enough to bound memory; whole ones, or
    # the system would have to split them. What one consumer of a queue has, no other can get.
    alone = point.domain == "topic" or point.consumers <= point.destinations
    least = 1024 if alone else 64
    batches = max(1, min(max(16, least // point.batch), _MOST_PREFETCH // point.batch))
    return batches * point.batch


def roles_of(point: Point) -> list[Role]:
    """Producer i and consumer i meet at destination i, going round where there are fewer destinations.

    Requesters and responders meet at pairs of queues in the same way. Where nobody is to receive, nobody does.
    """
    pairs = point.destinations
    if point.pattern == "request-reply":
        requesters = [Role("requester", n, n % pairs * 2) for n in range(point.requesters)]
        return requesters + [Role("responder", point.requesters + n, n % pairs * 2) for n in range(point.responders)]
    producers = [Role("producer", n, n % pairs) for n in range(point.producers)]
    if point.load == "send":
        return producers
    topic = point.domain == "topic"
    return producers + [Role("consumer", n, n % pairs, n if topic else 0) for n in range(point.consumers)]


def dealt(point: Point, agents: int) -> list[tuple[Role, ...]]:
    """One agent plays everything; of several, the first half begins and the rest answers, as on two machines.

    With bindings the first plays everything, since it has the broker; with two brokers the first two play.
    """
    playing = {"client": agents, "bindings": 1, "distributed": 2}[point.topology]
    beginning = max(1, playing // 2)
    hands: list[list[Role]] = [[] for _ in range(agents)]
    for role in roles_of(point):
        number = role.number
        if playing == 1:
            hands[0].append(role)
        elif role.role in ACTIVE:
            # Requesters that share a connection are played by one agent.
            hands[(number % (point.clients or number + 1)) % beginning].append(role)
        else:
            hands[beginning + number % (playing - beginning)].append(role)
    return [tuple(hand) for hand in hands]
