"""Names with levels, `prices.metal.gold`, and patterns: `*` stands for one level, a final `#` for any number."""

from functools import lru_cache


def is_pattern(name: str) -> bool:
    return any(level in ("*", "#") for level in name.split("."))


@lru_cache(maxsize=4096)
def matches(pattern: str, name: str) -> bool:
    """Whether a pattern matches a whole name. Both may begin with a kind (`topic:`), which must be equal."""
    kind, colon, rest = pattern.partition(":")
    if colon:
        if not name.startswith(kind + colon):
            return False
        pattern, name = rest, name[len(kind) + 1 :]
    pattern_levels, levels = pattern.split("."), name.split(".")
    if pattern_levels[-1] == "#":
        pattern_levels.pop()
        if len(levels) < len(pattern_levels):
            return False
        levels = levels[: len(pattern_levels)]
    return len(levels) == len(pattern_levels) and all(
        expected in ("*", level) for expected, level in zip(pattern_levels, levels, strict=True)
    )
