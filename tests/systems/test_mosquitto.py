import pytest

from mqlab.systems import system

from .hanging_system import check_hanging
from .real_system import CHECKS, Real, real

pytestmark = pytest.mark.needs_system("mosquitto")
up = real("mosquitto")
up_3 = real("mosquitto:driver=mqtt3")


@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says_over_mqtt_5(up: Real, feature: str) -> None:
    up.check(feature)


@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says_over_mqtt_3(up_3: Real, feature: str) -> None:
    up_3.check(feature)


def test_one_that_hangs_is_not_waited_for_without_an_end(up: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    check_hanging(up, monkeypatch)


def test_it_is_stamped_as_one_that_never_syncs() -> None:
    assert [stamp.partition(":")[0] for stamp in system("mosquitto").describe()["stamps"]] == ["never syncs"]
