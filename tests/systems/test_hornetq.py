import pytest

from mqlab.systems import system

from .real_system import CHECKS, Real, real

pytestmark = pytest.mark.needs_system("hornetq")
up = real("hornetq")


@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says(up: Real, feature: str) -> None:
    up.check(feature)


def test_its_word_is_worth_less_without_syncs() -> None:
    assert (system("hornetq").durability().syncs, system("hornetq").describe()["stamps"]) == ("before confirming", [])
    assert system("hornetq:sync=no").durability().syncs == "never"
    assert system("hornetq:sync=no").describe()["stamps"] != []
