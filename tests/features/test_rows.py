"""Every row of the feature matrix has its test, or a reason why not."""

import importlib
from pathlib import Path

import pytest

from . import rows


def _tests() -> set[str]:
    here = Path(__file__).parent
    modules = [importlib.import_module(f"{__package__}.{path.stem}") for path in here.glob("test_*.py")]
    return {name for module in modules for name in vars(module) if name.startswith("test_")}


@pytest.mark.parametrize("row", [*rows.FEATURES, *rows.SETTINGS])
def test_every_row_has_its_test_or_a_reason_why_not(row: str) -> None:
    assert (rows.test_name(row) in _tests()) != (row in rows.NOT_BROKER_SETTINGS)


def test_reasons_are_given_for_rows_only() -> None:
    assert rows.NOT_BROKER_SETTINGS.keys() <= {*rows.FEATURES, *rows.SETTINGS}
