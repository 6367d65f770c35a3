import pytest

from .real_system import CHECKS, Real, real

pytestmark = pytest.mark.needs_system("qpid")
up = real("qpid")


@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says_over_amqp10(up: Real, feature: str) -> None:
    up.check(feature)


@pytest.mark.needs_system("qpid:driver=jms")
@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says_over_jms(up: Real, feature: str) -> None:
    up.over("jms").check(feature)
