"""Figures as a reader sees them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.report.render import formatting


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (263454.0, "263,454"),
        (107.0, "107"),
        (99.96, "100"),
        (99.9, "99.9"),
        (1.8223, "1.82"),
        (0.00412, "0.00412"),
        (3.0, "3"),
        (0.0, "0"),
        (-0.0, "0"),
        (-12.34, "-12.3"),
        (float("inf"), "unbounded"),
    ],
)
def test_number(value: float, expected: str) -> None:
    assert formatting.number(value) == expected


@given(st.floats(1e-9, 1e15))
def test_number_keeps_three_digits(value: float) -> None:
    assert float(formatting.number(value).replace(",", "")) == pytest.approx(value, rel=0.0051)


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0.000412, "s", "412 \u00b5s"),
        (0.0041, "s", "4.1 ms"),
        (1000.0, "s", "1,000 s"),
        (0.0, "s", "0 ns"),
        (123_456_789.0, "bytes", "118 MiB"),
        (2_400_000_000.0, "bytes/s", "2.4 GB/s"),
        (97.0, "%", "97 %"),
        (263_454.0, "messages/s", "263,454 messages/s"),
    ],
)
def test_quantity(value: float, unit: str, expected: str) -> None:
    assert formatting.quantity(value, unit) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(98_123_456.0, "98.1 M"), (999_700.0, "1 M"), (950.0, "950"), (1e12, "1,000 G")]
)
def test_short(value: float, expected: str) -> None:
    assert formatting.short(value) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("rate.received", "rate at the consumers"), ("latency.p99.9", "latency, 99.9\u00a0%"), ("odd", "odd")],
)
def test_metric(name: str, expected: str) -> None:
    assert formatting.metric(name) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("8047.44", "8,047.44"), ("1000", "1,000"), ("-41", "-41"), ("N/A", "N/A"), ("1/4", "1/4"), ("", "")],
)
def test_printed_numbers_keep_their_digits(text: str, expected: str) -> None:
    assert formatting.printed(text) == expected


@pytest.mark.parametrize(("at", "expected"), [("threads=2", "2"), ("clients=6, threads=1", "6 \u00d7 1")])
def test_setting_at_a_peak(at: str, expected: str) -> None:
    assert formatting.setting(at) == expected


@pytest.mark.parametrize(("value", "expected"), [(5.0, "+5"), (-41.7, "-41.7"), (0.0, "0")])
def test_signed(value: float, expected: str) -> None:
    assert formatting.signed(value) == expected


@pytest.mark.parametrize(
    ("count", "expected"), [(12, "12 bytes"), (1024, "1 kiB"), (2048, "2 kiB"), (1500, "1,500 bytes")]
)
def test_size(count: int, expected: str) -> None:
    assert formatting.size(count) == expected


@pytest.mark.parametrize(
    ("iso", "expected"),
    [
        ("2026-01-01T12:00:00+00:00", "2026-01-01 12:00 UTC"),
        ("2026-01-01T14:00:00+02:00", "2026-01-01 12:00 UTC"),
        ("yesterday", "yesterday"),
        (None, "n/a"),
    ],
)
def test_moment(iso: str | None, expected: str) -> None:
    assert formatting.moment(iso) == expected


def test_plain_shows_what_has_no_shape() -> None:
    assert formatting.plain("a\x1b[31mb\u202ec\nd") == "a\ufffd[31mb\ufffdc\ufffdd"


@given(st.text())
def test_slug_is_a_safe_file_name(text: str) -> None:
    assert set(formatting.slug(text)) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert formatting.slug(text)


@pytest.mark.parametrize(("names", "expected"), [([], "none"), (["A"], "A"), (["A", "B", "C"], "A, B and C")])
def test_listed(names: list[str], expected: str) -> None:
    assert formatting.listed(names) == expected
