"""Who does what in a run: the roles of a point, dealt out to agents."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from mqlab.study import Point


@dataclass(frozen=True)
class Role:
    """A producer or a consumer. `subscription` as in the events: 0 on a queue, the consumer's own on a topic."""

    role: Literal["producer", "consumer"]
    number: int
    destination: int
    subscription: int = 0


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

    def destination(self, role: Role) -> str:
        """Names are new for each run, so nothing left over from another run can be mistaken."""
        return f"{self.point.domain}:run-{self.run}-{self.point.domain}-{role.destination}"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "point": self.point.to_json(), "roles": [asdict(role) for role in self.roles]}

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> "Assignment":
        roles = tuple(Role(**role) for role in said["roles"])
        return cls(**{**said, "point": Point.from_json(said["point"]), "roles": roles})


def roles_of(point: Point) -> list[Role]:
    """Producer i and consumer i meet at destination i, going round where there are fewer destinations."""
    producers = [Role("producer", n, n % point.destinations) for n in range(point.producers)]
    topic = point.domain == "topic"
    consumers = [
        Role("consumer", n, n % point.destinations, n if topic else 0) for n in range(point.consumers)
    ]
    return producers + consumers


def dealt(roles: list[Role], agents: int) -> list[tuple[Role, ...]]:
    """One agent plays everything; of several, the first half produces and the rest consumes, as on two machines."""
    if agents == 1:
        return [tuple(roles)]
    producing = max(1, agents // 2)
    hands: list[list[Role]] = [[] for _ in range(agents)]
    for role in roles:
        if role.role == "producer":
            hands[role.number % producing].append(role)
        else:
            hands[producing + role.number % (agents - producing)].append(role)
    return [tuple(hand) for hand in hands]
