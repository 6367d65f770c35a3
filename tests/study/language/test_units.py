from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.study.language import units


@pytest.mark.parametrize(
    ("text", "size"),
    [("1.5KiB", 1536), ("10MB", 10**7), ("12B", 12), ("1KiB", 1024), ("1KB", 1000), ("1MiB", 2**20), ("2 GiB", 2**31)],
)
def test_sizes(text: str, size: int) -> None:
    assert units.parse_size(text) == size


@pytest.mark.parametrize("text", ["12", "12 apples", "KiB", "-1B", "1e3B", "1kib", "0.3B", "", "1 KiB ", "٣B"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=r"12B, 1KiB or 10MB|whole number of bytes"):
        units.parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0B"), (12, "12B"), (100, "100B"), (1000, "1KB"), (1024, "1KiB"), (65536, "64KiB"), (10**7, "10MB")],
)
def test_sizes_are_shown_short(size: int, text: str) -> None:
    assert units.format_size(size) == text


@pytest.mark.parametrize(
    ("text", "seconds"), [("300ms", 0.3), ("2s", 2.0), ("5min", 300.0), ("1h", 3600.0), ("0s", 0.0), ("1.5s", 1.5)]
)
def test_times(text: str, seconds: float) -> None:
    assert units.parse_time(text) == seconds
    assert units.format_time(seconds) == text


@pytest.mark.parametrize("text", ["5", "5 sec", "1m", "-1s", "1s 2s", "nans"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="300ms, 2s, 5min or 1h"):
        units.parse_time(text)


@pytest.mark.parametrize(("text", "rate"), [("100/s", 100.0), ("5k/s", 5000.0), ("1.5M/s", 1.5e6), ("0.5/s", 0.5)])
def test_rates(text: str, rate: float) -> None:
    assert units.parse_rate(text) == rate
    assert units.format_rate(rate) == text


@pytest.mark.parametrize("text", ["100", "5k", "0/s", "k/s", "1G/s"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(ValueError, match="100/s, 5k/s"):
        units.parse_rate(text)


def test_percent() -> None:
    assert units.parse_percent("3%") == 0.03
    assert units.format_percent(0.005) == "0.5%"
    with pytest.raises(ValueError, match="write 3%"):
        units.parse_percent("0.03")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4.6, "4.6 s"), (36.8, "37 s"), (60, "1 min"), (560, "9 min 20 s"), (7200, "2 h"), (16160, "4 h 29 min")],
)
def test_durations_are_for_people(seconds: float, text: str) -> None:
    assert units.format_duration(seconds) == text


@given(st.integers(min_value=0, max_value=2**62))
def test_a_size_comes_back(size: int) -> None:
    shown = units.format_size(size)
    if size < 10**15:  # what the parser accepts: fifteen digits
        assert units.parse_size(shown) == size


numbers = st.decimals(min_value=0, max_value=10**6, places=3)


@given(numbers, st.sampled_from(["ms", "s", "min", "h"]))
def test_a_time_comes_back(number: Decimal, unit: str) -> None:
    seconds = units.parse_time(f"{number}{unit}")
    assert units.parse_time(units.format_time(seconds)) == pytest.approx(seconds, rel=1e-9, abs=1e-12)


@given(numbers.filter(bool), st.sampled_from(["/s", "k/s", "M/s"]))
def test_a_rate_comes_back(number: Decimal, unit: str) -> None:
    rate = units.parse_rate(f"{number}{unit}")
    assert units.parse_rate(units.format_rate(rate)) == rate


@given(numbers)
def test_a_share_comes_back(number: Decimal) -> None:
    share = units.parse_percent(f"{number}%")
    assert units.parse_percent(units.format_percent(share)) == share


@given(st.text(max_size=12))
def test_any_text_is_a_value_or_a_sentence(text: str) -> None:
    for parse in (units.parse_size, units.parse_time, units.parse_rate, units.parse_percent):
        with suppress(ValueError):
            assert parse(text) >= 0
