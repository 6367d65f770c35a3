from itertools import product

import pytest

from mqlab.broker import limits
from mqlab.broker.patterns import matches
from mqlab.broker.security.patterns import EVERYTHING, check_pattern, covers
from mqlab.broker.settings import SettingError


def levels(signs: str, most: int) -> list[str]:
    return [".".join(chosen) for count in range(1, most + 1) for chosen in product(signs, repeat=count)]


# Letters that patterns name and one that none names; one level more than any pattern has.
NAMES = levels("abz", 4)
PATTERNS = [*(one + tail for one in levels("ab*", 3) for tail in ("", ".#")), "#"]


def matched(pattern: str) -> set[str]:
    return {name for name in NAMES if matches(pattern, name)}


def test_a_pattern_covers_another_exactly_if_it_matches_all_that_the_other_does() -> None:
    sets = {pattern: matched(pattern) for pattern in PATTERNS}
    assert all(sets.values())
    for granted, asked in product(PATTERNS, repeat=2):
        expected = sets[asked] <= sets[granted]
        assert covers(f"topic:{granted}", f"topic:{asked}") is expected, (granted, asked)


def test_a_name_is_covered_exactly_if_it_is_matched() -> None:
    for granted, asked in product(PATTERNS, NAMES):
        assert covers(f"queue:{granted}", f"queue:{asked}") is matches(granted, asked), (granted, asked)


def anywhere(pattern: list[str], name: list[str]) -> bool:
    """Another reading, in which # stands for any number of levels wherever it is."""
    if not pattern or not name:
        return not name and all(level == "#" for level in pattern)
    if pattern[0] == "#":
        return anywhere(pattern[1:], name) or anywhere(pattern, name[1:])
    return pattern[0] in ("*", name[0]) and anywhere(pattern[1:], name[1:])


def test_a_hash_before_the_end_is_covered_only_if_every_reading_of_it_is() -> None:
    odd = [one for one in levels("a*#", 3) if "#" in one[:-1]]
    seen = 0
    for granted, asked in product(PATTERNS, odd):
        if covers(f"queue:{granted}", f"queue:{asked}"):
            seen += 1
            both = matched(asked) | {name for name in NAMES if anywhere(asked.split("."), name.split("."))}
            assert both <= matched(granted), (granted, asked)
    assert seen


def test_kinds_are_apart_and_one_word_means_both() -> None:
    assert not covers("queue:#", "topic:a")
    assert not covers("queue:#", EVERYTHING)
    assert not covers("queue:#", "queue")
    assert not covers("que:#", "queue:a")
    for asked in ("queue:a", "topic:a.#", EVERYTHING, "temporary:9", ""):
        assert covers(EVERYTHING, asked)


@pytest.mark.parametrize(
    "pattern",
    ["all", "queue:a", "topic:#", "topic:*", "topic:a.*.b.#", "queue:a b", "queue:ä", "queue:" + "a" * limits.NAME],
)
def test_patterns(pattern: str) -> None:
    assert check_pattern(pattern) == pattern


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("", "write queue:NAME, topic:NAME or all"),
        ("#", "write queue:NAME"),
        ("*:#", "write queue:NAME"),
        ("orders", "write queue:NAME"),
        ("queue:", "write queue:NAME"),
        ("mail:a", "write queue:NAME"),
        ("queue:a.#.b", "must be the last level"),
        ("queue:a#", "must be the last level"),
        ("queue:##", "must be the last level"),
        ("queue:or*", "must be a whole level"),
        ("queue:a.**", "must be a whole level"),
        ("queue: a", "no blank at its ends"),
        ("queue:a\n", "printable"),
        ("queue:a\u202e", "printable"),
        ("queue:\ud800", "printable"),
        ("queue:" + "a" * (limits.NAME + 1), "1 to 255"),
    ],
)
def test_what_would_never_match_is_no_pattern(pattern: str, says: str) -> None:
    with pytest.raises(SettingError, match=says) as caught:
        check_pattern(pattern)
    assert str(caught.value).isprintable()
