"""Formatting of figures and names: the same in every format of the report."""

import math
import re
from datetime import UTC, datetime
from typing import Final

from mqlab.study import METRICS, Point

NOT_AVAILABLE: Final = "n/a"
NOT_KNOWN: Final = "not known"
LOWER_BOUND: Final = "\u2265"
PLUS_MINUS: Final = "\u00b1"
TIMES: Final = "\u00d7"
# The mark of a figure of a point whose agents used more CPU than the study allows.
FLAG: Final = "*"
# A figure of flagged runs: disturbed, or not steady.
FLAGGED: Final = "~"
# How the durations of a point were counted.
LOOPS: Final = {"closed": "closed loop: stalls are under-represented", "open": "open loop"}

ACKNOWLEDGE: Final = {"auto": "Auto", "dups_ok": "Dups ok", "client": "Client"}
# A table with more rows is folded.
LONG: Final = 60
# Heads of columns for parameters; other parameters have their own names.
PARAMETERS: Final = {
    "scenario": "Scenario",
    "size": "Message size",
    "preload": "Preloaded messages",
    "threads": "Threads per client",
    "transaction": "Messages in a transaction",
    "acknowledge": "Acknowledgement",
    "durable": "Durable subscription",
    "traced": "Traced pairs",
    "trace": "Trace",
    "rate": "Load",
}

_SCALES: Final[dict[str, tuple[tuple[float, str], ...]]] = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "\u00b5s"), (1e-9, "ns")),
    "bytes": ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "bytes/s": ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")),
}

SCALED: Final = frozenset(_SCALES)

# Characters that are replaced in names: control characters could move the cursor or forge a line, and marks that
# change the direction of writing could make one name look like another.
_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def plain(text: str) -> str:
    """Replace every invisible character by a replacement mark."""
    return _INVISIBLE.sub("\ufffd", text)


def metric(name: str) -> str:
    """A metric in words: `latency.p99` is "latency, 99 %"."""
    return METRICS[name].label if name in METRICS else name


def capital(text: str) -> str:
    """With a capital first letter, and the others as they are."""
    return text[:1].upper() + text[1:]


def parameter(name: str) -> str:
    """The name of a parameter as the head of a column."""
    return PARAMETERS.get(name) or capital(name.replace("_", " "))


def number(value: float) -> str:
    """Three significant digits, or all digits of the integer part from 100 on; commas separate thousands."""
    if not math.isfinite(value):
        return "unbounded"
    if value == 0:
        return "0"
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{min(digits, 12)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def printed(text: str) -> str:
    """A number as a study printed it, with commas between thousands; other texts are unchanged."""
    whole, point, rest = text.partition(".")
    sign, digits = (whole[0], whole[1:]) if whole[:1] in "+-" and whole else ("", whole)
    if not digits.isdecimal() or (point and not rest.isdecimal()):
        return text
    return f"{sign}{int(digits):,}{point}{rest}"


def signed(value: float) -> str:
    """A change, always with its sign."""
    return f"+{number(value)}" if value > 0 else number(value)


def setting(at: str) -> str:
    """The values of a position on swept parameters: `6 \u00d7 1` of "clients=6, threads=1"."""
    return f" {TIMES} ".join(part.partition("=")[2] or part for part in at.split(", "))


def short(value: float) -> str:
    """Three digits and a letter (k, M, G), for axes and narrow terminals."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor * 0.9995:
            return f"{number(value / factor)} {letter}"
    return number(value)


def scaled_unit(value: float, unit: str) -> tuple[float, str]:
    """The unit scaled to the size of a value: its factor and its name. For 0.000412 s it is microseconds."""
    scales = _SCALES.get(unit, ((1.0, unit),))
    return next(((factor, name) for factor, name in scales if abs(value) >= factor), scales[-1])


def quantity(value: float, unit: str) -> str:
    """A value with its scaled unit: "412 µs"."""
    factor, name = scaled_unit(value, unit)
    return f"{number(value / factor)} {name}".rstrip()


def size(count: int) -> str:
    """A body size as the study prints it: `12 bytes`, `1 kiB`."""
    if count >= 1024 and count % 1024 == 0:
        return f"{count // 1024:,} kiB"
    return f"{count:,} bytes"


def bodies(point: Point) -> str:
    """The sizes of the bodies of a point: one, or those among which the lab draws."""
    return point.bodies if point.has_varied_bodies else size(point.size)


def moment(iso: str | None) -> str:
    """`2026-01-31 14:05 UTC`; a text that is not a time is shown as it is."""
    if not iso:
        return NOT_AVAILABLE
    try:
        when = datetime.fromisoformat(iso)
    except ValueError:
        return plain(iso)
    if when.tzinfo is not None:
        when = when.astimezone(UTC)
    return f"{when:%Y-%m-%d %H:%M} UTC"


def count(n: int, singular: str, plural: str = "") -> str:
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def listed(names: list[str]) -> str:
    """`A`, `A and B`, `A, B and C`."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part) if names else "none"


def slug(text: str) -> str:
    """A file name and anchor made of a title: letters, digits and hyphens only, never empty."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "part"
