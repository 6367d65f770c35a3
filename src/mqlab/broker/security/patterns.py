"""Patterns of destinations in rights.

A right names `queue:orders`, `queue:orders.#`, `topic:prices.*.gold`, or `all`: every destination of either kind.
"""

from typing import Final

from mqlab.broker import limits
from mqlab.broker.settings import SettingError

# A word, since `#` begins a comment in YAML and in a shell.
EVERYTHING: Final = "all"


def check_pattern(pattern: str) -> str:
    """Return the pattern. Raises SettingError for one that would never match."""
    if pattern == EVERYTHING:
        return pattern
    kind, colon, name = pattern.partition(":")
    if not colon or kind not in ("queue", "topic") or not name:
        raise SettingError(f"{pattern[:80]!r} is not a pattern; write queue:NAME, topic:NAME or {EVERYTHING}")
    if not name.isprintable() or name != name.strip() or len(name.encode()) > limits.NAME:
        raise SettingError(f"{pattern[:80]!r}: a name has 1 to {limits.NAME} printable bytes, no blank at its ends")
    *levels, last = name.split(".")
    if any("#" in level for level in levels) or ("#" in last and last != "#"):
        raise SettingError(f"{pattern[:80]!r}: # matches all remaining levels; it must be the last level: orders.#")
    if any("*" in level and level != "*" for level in (*levels, last)):
        raise SettingError(f"{pattern[:80]!r}: * must be a whole level: orders.*.new")
    return pattern


def covers(granted: str, asked: str) -> bool:
    """Whether `granted` matches every name that `asked` (a name or a pattern) matches."""
    if granted in (EVERYTHING, asked):
        return True
    kind, colon, granted_name = granted.partition(":")
    if not colon or not asked.startswith(kind + colon):
        return False
    granted_levels, all_below = _levels(granted_name)
    asked_levels, any_below = _levels(asked[len(kind) + 1 :])
    if len(granted_levels) > len(asked_levels):
        return False
    if not all_below and (any_below or len(granted_levels) < len(asked_levels)):
        return False
    return all(level in ("*", asked) for level, asked in zip(granted_levels, asked_levels, strict=False))


def _levels(name: str) -> tuple[list[str], bool]:
    """The levels before the first `#`, and whether there is one.

    Some products read a `#` before the end as an ordinary level; here it stands for all levels that follow.
    """
    levels = name.split(".")
    if "#" not in levels:
        return levels, False
    # Every name has a level, so `#` alone and `*.#` match the same names.
    return levels[: levels.index("#")] or ["*"], True
