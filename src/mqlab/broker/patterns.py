"""Names in levels, `prices.metal.gold`, and patterns of them: `*` stands for one level, a final `#` for any number."""

from functools import lru_cache


def is_pattern(name: str) -> bool:
    return any(level in ("*", "#") for level in name.split("."))


@lru_cache(maxsize=4096)
def matches(pattern: str, name: str) -> bool:
    """Whether a pattern matches a whole name; both may have a kind in front (`topic:`), which must be equal."""
    kind, colon, rest = pattern.partition(":")
    if colon:
        if not name.startswith(kind + colon):
            return False
        pattern, name = rest, name[len(kind) + 1 :]
    wanted, levels = pattern.split("."), name.split(".")
    if wanted[-1] == "#":
        wanted.pop()
        if len(levels) < len(wanted):
            return False
        levels = levels[: len(wanted)]
    return len(levels) == len(wanted) and all(want in ("*", level) for want, level in zip(wanted, levels, strict=True))
