"""The embedded broker passes the same exchange when it is driven by STOMP."""

import pytest

from mqlab.systems import SystemSettingError, system

from .real_system import CHECKS, Real, real

up = real("embedded:driver=stomp")


@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says(up: Real, feature: str) -> None:
    up.check(feature)


def test_the_driver_is_one_of_its_settings() -> None:
    assert system("embedded").describe()["settings"]["driver"] == "native"
    assert system("embedded:driver=stomp,sync=off").describe()["settings"]["driver"] == "stomp"
    with pytest.raises(SystemSettingError, match="driver: 'kafka' is none of native, stomp"):
        system("embedded:driver=kafka")
