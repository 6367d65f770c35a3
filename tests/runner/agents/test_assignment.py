import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.runner.agents.assignment import Assignment, Role, assign_roles, roles_of
from runner.points import PointChanges, point

sizes = st.integers(1, 40)


@settings(deadline=None)
@given(agents=st.integers(1, 7), producers=sizes, consumers=sizes, destinations=sizes, topic=st.booleans())
def test_each_role_is_dealt_exactly_once(
    agents: int, producers: int, consumers: int, destinations: int, topic: bool
) -> None:
    chosen = point(
        domain="topic" if topic else "queue", producers=producers, consumers=consumers, destinations=destinations
    )  # fmt: skip
    roles, hands = roles_of(chosen), assign_roles(chosen, agents)
    assert len(hands) == agents
    assert sorted((role for hand in hands for role in hand), key=str) == sorted(roles, key=str)
    assert [role.number for role in roles if role.role == "producer"] == list(range(producers))
    assert [role.number for role in roles if role.role == "consumer"] == list(range(consumers))
    if agents > 1:
        assert not any(len({role.role for role in hand}) > 1 for hand in hands), "an agent produces or consumes"
        for kind in ("producer", "consumer"):
            lengths = [len(hand) for hand in hands if any(role.role == kind for role in hand)]
            assert max(lengths) - min(lengths) <= 1, "and none has more to do than another"


@pytest.mark.parametrize(("agents", "producing"), [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3)])
def test_the_first_half_produces(agents: int, producing: int) -> None:
    hands = assign_roles(point(producers=12, consumers=12), agents)
    who = [n for n, hand in enumerate(hands) if any(role.role == "producer" for role in hand)]
    assert who == list(range(producing))


def test_each_consumer_of_a_topic_has_a_subscription_of_its_own() -> None:
    consumers = [role for role in roles_of(point(domain="topic", consumers=3)) if role.role == "consumer"]
    assert consumers == [Role("consumer", n, 0, subscription=n) for n in range(3)]


def test_the_consumers_of_a_queue_share_its_messages() -> None:
    consumers = [role for role in roles_of(point(domain="queue", consumers=3)) if role.role == "consumer"]
    assert consumers == [Role("consumer", n, 0, subscription=0) for n in range(3)]


def test_pairs_meet_at_their_own_destination() -> None:
    roles = roles_of(point(domain="queue", destinations=2, producers=3, consumers=5))
    assert [(role.role[0], role.number, role.destination) for role in roles] == [
        ("p", 0, 0), ("p", 1, 1), ("p", 2, 0), ("c", 0, 0), ("c", 1, 1), ("c", 2, 0), ("c", 3, 1), ("c", 4, 0),
    ]  # fmt: skip


@settings(deadline=None)
@given(run=st.integers(1, 10**6), agent=st.integers(1, 64), recorded=st.booleans(), topic=st.booleans())
def test_an_assignment_survives_the_way_to_its_agent(run: int, agent: int, recorded: bool, topic: bool) -> None:
    chosen = point(domain="topic" if topic else "queue", consumers=3, rate=123.5, until="interval(rate) < 3%")
    assignment = Assignment(
        run, agent, chosen, "native", "tcp:127.0.0.1:1", tuple(roles_of(chosen)), "/a folder" if recorded else None
    )
    assert Assignment.from_json(json.loads(json.dumps(assignment.to_json()))) == assignment


@pytest.mark.parametrize(("driver", "changes", "bounded"), [
    ("stomp", {}, True), ("native", {}, False), ("stomp", {"send": "confirmed"}, False),
    ("stomp", {"rate": 10.0}, False), ("stomp", {"transaction": 5}, False),
])  # fmt: skip
def test_who_waits_for_nothing_is_not_far_ahead_if_that_can_be_known(
    driver: str, changes: PointChanges, bounded: bool
) -> None:
    assert Assignment(1, 1, point(**changes), driver, "", (), None).is_bounded is bounded


def test_no_two_runs_or_roles_use_the_same_destination_unless_they_should() -> None:
    chosen = point(domain="queue", destinations=2, producers=2, consumers=2)
    names = set()
    for run in (1, 2, 11):
        assignment = Assignment(run, 1, chosen, "native", "tcp:127.0.0.1:1", tuple(roles_of(chosen)), None)
        met = [[assignment.destination(role) for role in assignment.roles if role.destination == n] for n in (0, 1)]
        assert [len(set(one)) for one in met] == [1, 1], "a producer and its consumer meet"
        assert all(name.startswith("queue:") for one in met for name in one)
        names |= {one[0] for one in met}
    assert len(names) == 6
