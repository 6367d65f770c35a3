import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.wire.equal_frames import FrameTemplate, bodies_at, concat_bodies, count_equal_frames, equal_bodies
from mqlab.wire.native.bodies import Bodies
from mqlab.wire.native.payload import Bytes


def array(data: bytes) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)


@settings(deadline=None)
@given(st.integers(0, 40), st.integers(1, 60), st.data())
def test_frames_of_a_template_are_alike_and_hold_their_bodies(size: int, rows: int, data: st.DataObject) -> None:
    template = FrameTemplate(b"head ", b"\r\n", size)
    bodies = array(data.draw(st.binary(min_size=rows * size, max_size=rows * size))).reshape(rows, size)
    frames = template.filled(bodies)
    assert frames == b"".join(b"head " + row.tobytes() + b"\r\n" for row in bodies)
    assert count_equal_frames(array(frames), 0, 5, size, 2) == rows
    assert equal_bodies(array(frames), 0, rows, 5, size, 2).tolist() == [row.tobytes() for row in bodies]


def test_a_template_is_used_again_for_fewer_and_for_more() -> None:
    template = FrameTemplate(b"<", b">", 1)
    for text in (b"abc", b"d", b"efghij"):
        assert template.filled(array(text).reshape(-1, 1)) == b"".join(b"<%c>" % letter for letter in text)


@settings(deadline=None)
@given(st.integers(1, 80), st.integers(0, 79), st.sampled_from(["head", "tail"]))
def test_the_first_frame_that_is_unlike_ends_the_row(rows: int, at: int, where: str) -> None:
    frames = [b"head:" + bytes([n]) * 3 + b"\r\n" for n in range(rows)]
    if 0 < at < rows:
        frames[at] = b"heap:abc\r\n" if where == "head" else b"head:abc\r\r"
    assert count_equal_frames(array(b"".join(frames) + b"head:"), 0, 5, 3, 2) == (at if 0 < at < rows else rows)


def test_bodies_do_not_change_with_what_they_were_taken_from() -> None:
    for rows in (1, 3):
        data = array(b"<a>" * rows).copy()
        found = equal_bodies(data, 0, rows, 1, 1, 1), bodies_at(data, [1], [1])
        data[:] = 0
        assert [bodies[0] for bodies in found] == [b"a", b"a"]


@settings(deadline=None)
@given(st.lists(st.lists(st.binary(max_size=5), min_size=1, max_size=4), min_size=1, max_size=4), st.booleans())
def test_bodies_are_joined_in_their_order(parts: list[list[bytes]], cut: bool) -> None:
    some = []
    for part in parts:
        # Bodies that begin in the middle of their data, as those of a cut arrival do.
        whole = [b"before", *part] if cut else part
        offsets = np.cumsum([0, *(len(one) for one in whole)]).astype(np.int32)
        some.append(Bodies(array(b"".join(whole)), offsets[1:] if cut else offsets))
    assert concat_bodies(some).tolist() == [body for part in parts for body in part]
