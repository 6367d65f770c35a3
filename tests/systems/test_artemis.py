import pytest

from mqlab.systems import SystemSettingError, system

from .lost_connection import check_lost_connection
from .real_system import CHECKS, Real, real

needs_it = pytest.mark.needs_system("artemis:driver=stomp")
up = real("artemis:driver=stomp")


@needs_it
@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says_over_stomp(up: Real, feature: str) -> None:
    up.check(feature)


@needs_it
@pytest.mark.needs_system("artemis:driver=amqp10")
@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says_over_amqp(up: Real, feature: str) -> None:
    up.over("amqp10").check(feature)


@needs_it
def test_what_the_consumer_of_a_lost_connection_held_comes_again(up: Real) -> None:
    check_lost_connection(up)


def test_without_syncs_it_says_so() -> None:
    synced, hasty = system("artemis"), system("artemis:sync=no")
    assert synced.durability().syncs == "before confirming"
    assert synced.describe()["stamps"] == []
    assert hasty.durability().syncs == "later"
    assert "a power failure loses confirmed messages" in hasty.describe()["stamps"][0]


def test_a_setting_that_it_has_not_is_refused() -> None:
    with pytest.raises(SystemSettingError, match="'maybe' is none of yes, no"):
        system("artemis:sync=maybe")
