"""Processes of the lab's own without pandas, which none of them needs."""

import sys
from importlib.abc import MetaPathFinder


class _PandasFinder(MetaPathFinder):
    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("this process does not need pandas")


def hide_pandas() -> None:
    """pyarrow imports pandas, where it is installed, with its first array: for half a second nothing else would run."""
    sys.meta_path.insert(0, _PandasFinder())
