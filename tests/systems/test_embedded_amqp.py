"""The embedded broker passes the same exchange when it is driven by AMQP 1.0, and by JMS over it."""

import pytest

from .real_system import CHECKS, Real, real

up = real("embedded:driver=amqp10")


@pytest.mark.needs_system("embedded:driver=amqp10")
@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says_over_amqp10(up: Real, feature: str) -> None:
    up.check(feature)


over_jms = real("embedded:driver=jms")


@pytest.mark.needs_system("embedded:driver=jms")
@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says_over_jms(over_jms: Real, feature: str) -> None:
    over_jms.check(feature)
