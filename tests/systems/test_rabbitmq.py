import psutil
import pytest

from mqlab.drivers import DRIVERS, DriverError, ReceiverOptions
from mqlab.runner.capability import unsupported_features
from mqlab.runner.checks.feature_checks import NumberedProducer
from mqlab.systems import SystemFailedError, system

from .hanging_system import check_hanging
from .lost_connection import check_lost_connection
from .real_system import CHECKS, Real, real

pytestmark = pytest.mark.needs_system("rabbitmq")
up = real("rabbitmq")


@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says_over_amqp(up: Real, feature: str) -> None:
    up.check(feature)


def test_one_that_hangs_is_not_waited_for_without_an_end(up: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqlab.drivers.amqp.client._CLOSE_TIMEOUT_S", 0.3)
    check_hanging(up, monkeypatch)


def test_what_the_consumer_of_a_lost_connection_held_comes_again(up: Real) -> None:
    check_lost_connection(up)


@pytest.mark.parametrize("feature", ["topics", "durable subscriptions"])
@pytest.mark.parametrize("driver", ["mqtt3", "stomp"])
def test_it_speaks_other_protocols_too(up: Real, driver: str, feature: str) -> None:
    up.over(driver).check(feature)


@pytest.mark.needs_system("rabbitmq:driver=amqp10")
@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says_over_amqp10(up: Real, feature: str) -> None:
    up.over("amqp10").check(feature)


@pytest.mark.needs_system("rabbitmq:driver=amqp10")
def test_what_only_one_driver_lacks_is_said_of_that_one() -> None:
    assert "transactions" in unsupported_features(system("rabbitmq:driver=amqp10"))
    assert "transactions" not in unsupported_features(system("rabbitmq:driver=amqp"))


@pytest.mark.needs_system("rabbitmq:driver=amqp10")
@pytest.mark.parametrize(
    ("driver", "words"),
    [("amqp", "REFUSED"), ("stomp", "Access refused"), ("mqtt3", "user name or password"), ("amqp10", "unauthorized")],
)
def test_a_refused_login_is_told(up: Real, driver: str, words: str) -> None:
    other = up.over(driver).running
    options = {**other.options, "password": "wrong"}
    with pytest.raises(DriverError, match=words):
        up.run(DRIVERS[driver](other.address, options).connect())


def test_a_durable_subscription_has_a_depth(up: Real) -> None:
    async def play() -> None:
        name = up.tested.new_destination("topic")
        async with up.tested.connected() as connection:
            await connection.subscribe(name, ReceiverOptions(10, durable="depth-of-it"))
            await NumberedProducer().send(connection, name, 7, wait=True, persistent=True)
            assert await up.running.depth("subscription:depth-of-it") == 7
            await connection.unsubscribe("depth-of-it")

    up.run(play())


def test_a_queue_that_is_not_there_is_no_empty_one(up: Real) -> None:
    with pytest.raises(SystemFailedError, match="no such queue"):
        up.run(up.running.depth("queue:nobody-made-it"))


def test_nothing_of_it_is_reachable_from_elsewhere(up: Real) -> None:
    """Nor is the port mapper, which is a daemon of its own, anywhere but under the supervisor."""
    assert up.running.pid is not None
    family = psutil.Process(up.running.pid).children(recursive=True)
    assert "epmd" in {one.name() for one in family}
    listening = [
        one.laddr.ip for process in family for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN
    ]
    assert len(listening) >= 5
    assert set(listening) <= {"127.0.0.1", "::1"}
