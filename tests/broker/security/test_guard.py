import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.broker import limits
from mqlab.broker.security.guard import Guard, GuardLimits

HERE, THERE = "192.0.2.1", "192.0.2.2"


def test_the_limits_are_those_of_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    assert GuardLimits().connections == limits.CONNECTIONS
    assert GuardLimits().an_address == limits.CONNECTIONS_AN_ADDRESS < limits.CONNECTIONS
    monkeypatch.setattr(limits, "CONNECTIONS", 1)
    guard = Guard()
    assert guard.admit(HERE) is None
    assert guard.admit(THERE) == "this broker accepts at most 1 connections"


def test_connections_in_all() -> None:
    guard = Guard(GuardLimits(connections=3))
    assert [guard.admit(f"192.0.2.{number}") for number in range(3)] == [None] * 3
    assert "at most 3 connections" in str(guard.admit("192.0.2.9"))
    guard.release("192.0.2.0")
    assert guard.admit("192.0.2.9") is None
    assert guard.admit("") is not None


def test_connections_of_an_address() -> None:
    guard = Guard(GuardLimits(an_address=2))
    assert [guard.admit(HERE) for _ in range(2)] == [None, None]
    assert guard.admit(HERE) == "this broker accepts at most 2 connections from one address"
    assert guard.admit(THERE) is None
    guard.release(HERE)
    assert guard.admit(HERE) is None
    assert guard.admit(HERE) is not None


def test_unix_sockets_have_no_address() -> None:
    guard = Guard(GuardLimits(connections=5, an_address=2))
    assert [guard.admit("") for _ in range(5)] == [None] * 5
    assert guard.admit("") is not None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("something", "something else", False),
    ],
)
def test_what_is_one_address(one: str, other: str, same: bool) -> None:
    guard = Guard(GuardLimits(an_address=1))
    assert guard.admit(one) is None
    assert (guard.admit(other) is not None) is same


def test_leaving_without_arriving_is_noticed() -> None:
    with pytest.raises(AssertionError, match="released without having been admitted"):
        Guard().release(HERE)


peers = st.sampled_from([HERE, THERE, "", "2001:db8::1", "2001:db8::2"])


@given(st.lists(st.tuples(st.booleans(), peers), max_size=60))
def test_the_count_is_that_of_those_who_are_here(steps: list[tuple[bool, str]]) -> None:
    guard, here = Guard(GuardLimits(connections=5, an_address=3)), list[str]()
    for arrives, peer in steps:
        if arrives:
            alike = [one for one in here if one == peer or (":" in one and ":" in peer)]
            refused = len(here) >= 5 or (bool(peer) and len(alike) >= 3)
            assert (guard.admit(peer) is not None) is refused
            if not refused:
                here.append(peer)
        elif peer in here:
            here.remove(peer)
            guard.release(peer)
    for peer in here:
        guard.release(peer)
    assert not guard._connections


def test_each_failure_delays_the_answer_twice_as_long() -> None:
    guard = Guard()
    assert [guard.failed_login(HERE, "ann", 0.0) for _ in range(8)] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert guard.failed_login(THERE, "ann", 0.0) == 0.25
    assert guard.failed_login(HERE, "bob", 0.0) == 0.25


def test_old_failures_are_forgotten() -> None:
    guard = Guard(GuardLimits(failure_seconds=60))
    assert [guard.failed_login(HERE, "ann", now) for now in (0.0, 30.0, 59.9)] == [0.25, 0.5, 1.0]
    assert guard.failures(HERE, "ann", 59.9) == 3
    assert guard.failed_login(HERE, "ann", 60.0) == 1.0
    assert guard.failed_login(HERE, "ann", 1000.0) == 0.25
    assert guard.failures(HERE, "ann", 1060.0) == 0


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_so_many_failures_make_an_address_suspect_whatever_the_users(more: int) -> None:
    guard = Guard(GuardLimits(failures=3, failure_seconds=60))
    for number in range(3 + more):
        guard.failed_login(HERE, f"user {number}", 1.0)
    assert guard.is_suspect(HERE, 60.9) is (more >= 0)
    assert not guard.is_suspect(HERE, 61.0)
    assert not guard.is_suspect(THERE, 2.0)


def test_users_of_unix_sockets_are_told_apart() -> None:
    guard = Guard(GuardLimits(failures=1))
    guard.failed_login("uid 1000", "ann", 0.0)
    assert guard.is_suspect("uid 1000", 1.0)
    assert not guard.is_suspect("uid 1001", 1.0)
    assert [guard.admit("uid 1000") for _ in range(3)] == [None] * 3


def test_one_client_with_a_wrong_password_slows_itself() -> None:
    guard, now, times = Guard(), 0.0, list[float]()
    while now < 600:
        assert not guard.is_suspect(HERE, now)
        times.append(now)
        now += guard.failed_login(HERE, "ann", now)
    busiest = max(sum(begin <= time < begin + 60 for time in times) for begin in times)
    assert busiest <= 12 < limits.LOGIN_FAILURES


def test_memory_is_bounded_whatever_fails() -> None:
    guard = Guard(GuardLimits(failing_addresses=10, failures=5))
    for number in range(100):
        for _ in range(20):
            guard.failed_login(f"10.0.0.{number}", "ann" * 1000, float(number))
    assert len(guard._failures) == 10
    assert all(len(times) <= 5 for times in guard._failures.values())
    assert all(len(name or "") <= limits.USER_NAME for _, name in guard._failures)
    # Those that failed longest ago were forgotten, the last are known.
    assert not guard.is_suspect("10.0.0.94", 100.0)
    assert guard.is_suspect("10.0.0.95", 100.0)


def test_the_address_that_goes_on_failing_is_the_last_to_be_forgotten() -> None:
    guard = Guard(GuardLimits(failing_addresses=4, failures=2))
    for peer in (HERE, THERE, HERE, "192.0.2.3"):
        guard.failed_login(peer, "ann", 0.0)
    assert guard.is_suspect(HERE, 0.0)
