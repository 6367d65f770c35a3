from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Puts a study file (and others, by name) into a folder of its own, and returns its path."""

    def put(text: str, **others: str) -> Path:
        for name, content in others.items():
            (tmp_path / name.replace("_", ".")).write_text(content, encoding="utf-8")
        path = tmp_path / "my.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return put
