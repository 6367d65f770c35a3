"""Which tests against real systems can run here. One that is not installed is named as such, or fails if it must be."""

import os
from functools import cache

import pytest

from mqlab.runner.capability import driver_class
from mqlab.systems import SystemFailedError, system


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs_system"):
        if why := _missing(marker.args[0]):
            if os.environ.get("MQLAB_TEST_SYSTEMS") == "all":
                pytest.fail(why, pytrace=False)
            pytest.skip(why)


@cache
def _missing(name: str) -> str:
    one = system(name)
    try:
        driver_class(one)
    except SystemFailedError as error:
        return str(error)
    return one.missing()
