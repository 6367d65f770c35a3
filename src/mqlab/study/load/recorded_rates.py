"""A recorded load as a rate profile, which begins again at its end.

counts in orders.txt                    messages of each second, a number on each line
times in orders.txt                     the time of each message in seconds, on a line each
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from mqlab.study.language.rates import AGAIN, RateProfile, parse_profile
from mqlab.study.load.study_files import StudyFiles

_FORM: Final = re.compile(r"(counts|times) in ([A-Za-z0-9_][A-Za-z0-9_.-]{0,99})", re.ASCII)
# Messages of a recording with times are counted in intervals of this length.
_BIN_MS: Final = 100
# The steps are part of each point.
_MOST_STEPS: Final = 20_000


def is_recorded(text: str) -> bool:
    return " in " in text


def read_recorded(text: str, files: StudyFiles) -> RateProfile:
    """Raises ValueError."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a recorded rate; write counts in FILE or times in FILE")
    kind, name = match.groups()
    numbers = _numbers(name, files.read(name), whole=kind == "counts")
    counts, step_ms = (list(map(int, numbers)), 1000) if kind == "counts" else (_counted(numbers), _BIN_MS)
    if not any(counts):
        raise ValueError(f"{name} has no messages")
    steps = [(count, len([*same])) for count, same in groupby(counts)]
    if len(steps) > _MOST_STEPS:
        raise ValueError(f"{name} has {len(steps):,} different rates; at most {_MOST_STEPS:,} are accepted")
    return parse_profile(_profile(steps, step_ms)).named(text)


def _numbers(name: str, content: bytes, *, whole: bool) -> list[float]:
    expected = "a whole number of messages" if whole else "a time in seconds"
    accepted = re.compile(r"\d{1,9}" if whole else r"\d{1,12}(\.\d{1,12})?", re.ASCII)
    numbers = []
    for line, text in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        plain = text.partition("#")[0].strip()
        if plain and not accepted.fullmatch(plain):
            raise ValueError(f"{name}, line {line}: '{plain[:40]}' is not {expected}")
        if plain:
            numbers.append(float(plain))
    return numbers


def _counted(times: Sequence[float]) -> list[int]:
    """The messages of each interval, from the first message on."""
    first = min(times, default=0.0)
    counts = Counter(math.floor((time - first) * 1000 / _BIN_MS) for time in times)
    if (last := max(counts, default=0)) > 10**7:
        raise ValueError(f"the times reach over {last * _BIN_MS // 1000:,} seconds; are they in seconds?")
    return [counts[number] for number in range(last + 1)]


def _profile(steps: Iterable[tuple[int, int]], step_ms: int) -> str:
    rates = (f"{count * 1000 // step_ms}/s for {times * step_ms}ms" for count, times in steps)
    return " then ".join(rates) + AGAIN
