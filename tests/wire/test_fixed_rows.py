"""Counting rows that equal the first one."""

import pytest

from mqlab.wire.fixed_rows import as_table, count_equal_rows


@pytest.mark.parametrize(
    ("buffer", "parts", "alike"),
    [
        (b"a1za2za3z", ((0, 1), (2, 3)), 3),
        (b"a1za2yb3z", ((0, 1), (2, 3)), 1),
        (b"a1za2zb3z", ((0, 1), (2, 3)), 2),
        (b"a1za2ya3z", ((0, 1),), 3),
        (b"a1zb2yc3x", ((1, 1),), 3),
        (b"a1z", ((0, 3),), 1),
    ],
)
def test_only_the_named_parts_count(buffer: bytes, parts: tuple[tuple[int, int], ...], alike: int) -> None:
    assert count_equal_rows(as_table(buffer, 0, len(buffer) // 3, 3), parts) == alike


def test_a_table_may_begin_anywhere() -> None:
    assert as_table(b"--abcdef--", 2, 2, 3).tobytes() == b"abcdef"
