"""Tests of real systems name what is not installed, and fail where everything must be installed."""

import pytest

from mqlab.runner.capability import unsupported_features
from mqlab.systems import SYSTEMS, System, SystemFailedError, system

from .conftest import _missing, pytest_runtest_setup
from .fakes import Fake
from .real_system import CHECKS, Real


class Item:
    """A test that needs a system."""

    def __init__(self, name: str) -> None:
        self._name = name

    def iter_markers(self, _: str) -> list[pytest.Mark]:
        return [pytest.mark.needs_system(self._name).mark]


@pytest.fixture(autouse=True)
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {"drivers": ("native",), "missing": lambda _: "fake is not installed"}
    monkeypatch.setitem(SYSTEMS, "fake", type("Missing", (Fake,), missing))
    _missing.cache_clear()


def set_up(name: str) -> None:
    pytest_runtest_setup(Item(name))  # type: ignore[arg-type] # has what the hook reads


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MQLAB_TEST_SYSTEMS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="fake is not installed"):
        set_up("fake")
    set_up("embedded")


def test_where_everything_must_be_there_that_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQLAB_TEST_SYSTEMS", "all")
    with pytest.raises(pytest.fail.Exception, match="fake is not installed"):
        set_up("fake")
    set_up("embedded")


def lacking(one: System) -> dict[str, str]:
    """Nothing, where its library is not there and that is said with the way out."""
    try:
        return unsupported_features(one)
    except SystemFailedError as error:
        if "pip install 'mqlab[systems]'" in str(error):
            return {}
        raise


@pytest.mark.parametrize("name", sorted(set(SYSTEMS) - {"external"}))
def test_every_recipe_says_what_it_is(name: str) -> None:
    """Whether it is installed or not: the list of systems, the report and the absences are made of this."""
    one = system(name)
    assert isinstance(one, System)
    described = one.describe()
    assert (described["name"], bool(described["version"]), bool(one.title)) == (name, True, True)
    assert all(described["stamps"])
    durability = one.durability()
    assert all((durability.persistent, durability.confirmed, durability.acknowledged, durability.replies))
    for driver in one.drivers:
        chosen = system(f"{name}:driver={driver}")
        assert chosen.driver == driver
        found = lacking(chosen)
        assert set(found) <= set(CHECKS) | {"bindings", "distributed"}, "a feature of that name is not known"
        assert all(found.values()), "each with its reason"


def test_what_is_lacking_needs_a_reason() -> None:
    silent = type("Silent", (Fake,), {"drivers": ("native",), "lacks": {"topics": ""}})({})
    with pytest.raises(AssertionError, match="does not say why it lacks topics"):
        Real(silent, None, None).check("topics")  # type: ignore[arg-type] # refused before it uses them
