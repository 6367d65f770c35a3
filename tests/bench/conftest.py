"""For all tests of benchmarks: their modules, which lie in a folder that is no package."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

_FOLDER: Final = Path(__file__).parents[2] / "bench"


@pytest.fixture
def import_benchmarks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The modules of the folder can be imported, and keep nothing from one test to the next."""
    monkeypatch.syspath_prepend(_FOLDER)
    yield
    for name, module in sys.modules.copy().items():
        if (file := getattr(module, "__file__", None)) and Path(file).parent == _FOLDER:
            del sys.modules[name]
