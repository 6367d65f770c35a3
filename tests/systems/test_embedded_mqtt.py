"""The embedded broker passes the same exchange when it is driven by MQTT."""

import pytest

from .real_system import CHECKS, Real, real

up = real("embedded:driver=mqtt")
up_3 = real("embedded:driver=mqtt3")


@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says_over_mqtt_5(up: Real, feature: str) -> None:
    up.check(feature)


@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says_over_mqtt_3(up_3: Real, feature: str) -> None:
    up_3.check(feature)
