import pytest

from mqlab.drivers import ReceiverOptions
from mqlab.runner.checks.feature_checks import NumberedProducer
from mqlab.systems import SystemFailedError, system

from .real_system import CHECKS, Real, real

pytestmark = pytest.mark.needs_system("openmq")
up = real("openmq")


@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says(up: Real, feature: str) -> None:
    up.check(feature)


def test_messages_that_wait_for_a_subscriber_can_be_counted(up: Real) -> None:
    async def counted() -> int:
        async with up.tested.connected() as connection:
            topic, how = up.tested.new_destination("topic"), ReceiverOptions(10, durable="counted")
            await connection.subscribe(topic, how)
            await NumberedProducer().send(connection, topic, 7, wait=True, persistent=True)
            try:
                return await up.running.depth("subscription:counted")
            finally:
                await connection.unsubscribe("counted")

    assert up.run(counted()) == 7


def test_a_queue_that_is_not_there_has_no_depth(up: Real) -> None:
    with pytest.raises(SystemFailedError, match="query dst"):
        up.run(up.running.depth("queue:nobody-made-it"))


def test_its_word_is_worth_less_without_syncs() -> None:
    assert (system("openmq").durability().syncs, system("openmq").describe()["stamps"]) == ("before confirming", [])
    assert system("openmq:sync=no").durability().syncs == "never"
    assert system("openmq:sync=no").describe()["stamps"] != []
