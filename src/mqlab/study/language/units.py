"""Parsing and formatting of sizes, times, rates and shares with units.

Every `parse_*` raises ValueError with a sentence that names the accepted forms. Numbers go through Decimal, so that
`300ms` is parsed to the float nearest to 0.3 and formatted as `300ms` again.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

BYTES: Final = {"B": 1, "KB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}
SECONDS: Final = {"ms": Decimal("0.001"), "s": Decimal(1), "min": Decimal(60), "h": Decimal(3600)}
PER_SECOND: Final = {"/s": 1, "k/s": 10**3, "M/s": 10**6}

_NUMBER: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s?([A-Za-z/%]+)", re.ASCII)


@dataclass(frozen=True)
class PeakShare:
    """A rate as a share of the measured peak: of what the same workload reached with `rate: max` on the same system."""

    share: float


def _split(text: str) -> tuple[Decimal, str] | None:
    match = _NUMBER.fullmatch(text)
    return (Decimal(match[1]), match[2]) if match else None


def _plain(number: Decimal) -> str:
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def parse_size(text: str) -> int:
    """Return bytes: `12B`, `1KiB` (1024), `10MB` (10,000,000)."""
    parsed = _split(text)
    if parsed is None or parsed[1] not in BYTES:
        raise ValueError(f"'{text}' is not a size; write 12B, 1KiB or 10MB")
    size = parsed[0] * BYTES[parsed[1]]
    if size != int(size):
        raise ValueError(f"'{text}' is not a whole number of bytes")
    return int(size)


def format_size(size: int) -> str:
    """Return the shortest exact text, binary units preferred: 1024 is `1KiB`, 1000 is `1KB`."""
    exact = [f"{size // unit}{name}" for name, unit in BYTES.items() if size % unit == 0 and (size or unit == 1)]
    return min(exact, key=lambda text: (len(text.rstrip("KMGiB")), not text.endswith("iB"), len(text)))


def parse_time(text: str) -> float:
    """Return seconds: `300ms`, `2s`, `5min`, `1h`."""
    parsed = _split(text)
    if parsed is None or parsed[1] not in SECONDS:
        raise ValueError(f"'{text}' is not a time; write 300ms, 2s, 5min or 1h")
    return float(parsed[0] * SECONDS[parsed[1]])


def format_time(seconds: float) -> str:
    """Return the exact text in the largest unit without a fraction; below a second, in milliseconds."""
    exact = Decimal(repr(seconds))
    for name in ("h", "min"):
        if exact and exact % SECONDS[name] == 0:
            return f"{_plain(exact / SECONDS[name])}{name}"
    if 0 < exact < 1:
        return f"{_plain(exact / SECONDS['ms'])}ms"
    return f"{_plain(exact)}s"


def format_duration(seconds: float) -> str:
    """Return a rounded duration for people: `37 s`, `9 min 20 s`, `4 h 29 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    minutes = round(seconds / 60)
    return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")


def parse_rate(text: str) -> float:
    """Return messages per second: `100/s`, `5k/s`, `1.5M/s`."""
    parsed = _split(text)
    if parsed is None or parsed[1] not in PER_SECOND or not parsed[0]:
        raise ValueError(f"'{text}' is not a rate; write 100/s, 5k/s, 1.5M/s or max")
    return float(parsed[0] * PER_SECOND[parsed[1]])


def format_rate(rate: float | PeakShare) -> str:
    if isinstance(rate, PeakShare):
        return format_percent(rate.share)
    exact = Decimal(repr(rate))
    return min((f"{_plain(exact / unit)}{name}" for name, unit in PER_SECOND.items()), key=len)


def parse_rate_or_share(text: str) -> float | PeakShare:
    """Return messages per second, or a share of the peak: `5k/s`, `70%`."""
    if not text.endswith("%"):
        return parse_rate(text)
    share = parse_percent(text)
    if not 0 < share <= 1:
        raise ValueError(f"'{text}' is not a share of the peak; write one above 0% and at most 100%")
    return PeakShare(share)


def parse_percent(text: str) -> float:
    """Return a share: `3%` is 0.03."""
    parsed = _split(text)
    if parsed is None or parsed[1] != "%":
        raise ValueError(f"'{text}' is not a share; write 3% or 0.5%")
    return float(parsed[0] / 100)


def format_percent(share: float) -> str:
    return f"{_plain(Decimal(repr(share)) * 100)}%"
