"""A registry of classes by name: those of mqlab, and those that other packages add by entry points."""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

Kind = TypeVar("Kind")


class Registry(MutableMapping[str, "type[Kind]"], Generic[Kind]):
    """Loads a class when it is first used. Raises KeyError for an unknown name, and any error of the import."""

    def __init__(self, group: str, own: Mapping[str, str]) -> None:
        added = {point.name: point for point in entry_points(group=group)}
        # Another package cannot replace a class of mqlab.
        self._points = added | {name: EntryPoint(name, value, group) for name, value in own.items()}
        self._loaded: dict[str, type[Kind]] = {}

    def __getitem__(self, name: str) -> "type[Kind]":
        if name not in self._loaded:
            self._loaded[name] = self._points[name].load()
        return self._loaded[name]

    def __setitem__(self, name: str, kind: "type[Kind]") -> None:
        self._loaded[name] = kind

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._loaded.pop(name, None)
        self._points.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._points | self._loaded)

    def __contains__(self, name: object) -> bool:
        return name in self._points or name in self._loaded

    def __len__(self) -> int:
        return len(self._points | self._loaded)
