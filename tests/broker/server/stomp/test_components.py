"""The parts of the adapter that need no broker."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.broker import limits
from mqlab.broker.core.model.destination_names import BadNameError
from mqlab.broker.server.adapter.id_ranges import UnacknowledgedRanges, count, ranges_of
from mqlab.broker.server.adapter.property_names import PropertyNameError, header_name, property_name
from mqlab.broker.server.adapter.receipts import Receipts
from mqlab.broker.server.protocol_detection import is_http, is_stomp
from mqlab.broker.server.stomp.handshake import parse_connect
from mqlab.broker.server.stomp.messages.destination_names import native_name, stomp_name
from mqlab.broker.server.stomp.messages.unpacking import header_line
from mqlab.wire.native import frames as native
from mqlab.wire.native.columns import is_property_name
from mqlab.wire.native.frames import Kind
from mqlab.wire.stomp.decoder import Limits, StompFrameDecoder
from mqlab.wire.stomp.frames import StompError

IDS = st.integers(1, 40)
LEAST = limits.STOMP_HEART_BEAT


@given(st.lists(st.tuples(st.sampled_from(["give", "take", "return"]), IDS, IDS)))
def test_ranges_are_like_a_set(steps: list[tuple[str, int, int]]) -> None:
    ranges, wanted, given_out, taken = UnacknowledgedRanges(), set[int](), 0, set[int]()
    for what, one, other in steps:
        low, high = min(one, other), max(one, other)
        if what == "give":
            ranges.add(given_out + 1, given_out + one)
            wanted |= set(range(given_out + 1, given_out + one + 1))
            given_out += one
        elif what == "take":
            found = {number for first, last in ranges.take(low, high) for number in range(first, last + 1)}
            assert found == wanted & set(range(low, high + 1))
            wanted -= found
            taken |= found
        else:
            back = ranges_of(sorted(taken))
            assert count(back) == len(taken)
            ranges.add_all(back)
            wanted |= taken
            taken = set()
    everything = ranges.take(0, 10**9)
    assert {number for first, last in everything for number in range(first, last + 1)} == wanted
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(everything))


@given(st.lists(IDS))
def test_runs_keep_the_order(ids: list[int]) -> None:
    runs = ranges_of(ids)
    assert [one for first, last in runs for one in range(first, last + 1)] == ids


@given(st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=20))
def test_every_header_can_be_a_property_and_comes_back(header: str) -> None:
    name = property_name(header)
    assert is_property_name(name)
    # Only who writes a code himself gets something else.
    if "_x" not in header and "_HYPHEN_" not in header and "_DOT_" not in header and header != "content_type":
        assert header_name(name) == header


@pytest.mark.parametrize(
    ("header", "name"),
    [("colour", "colour"), ("x-y", "x_HYPHEN_y"), ("a.b", "a_DOT_b"), ("content-type", "content_type"),
     ("a b", "a_x20_b"), ("9", "_x39_"), ("$ok", "$ok")],
)  # fmt: skip
def test_names_of_properties(header: str, name: str) -> None:
    assert property_name(header) == name
    assert header_name(name) == header


@pytest.mark.parametrize("name", ["_xffffffff_", "_x110000_", "_xd800_", "a_x_", "_HYPHEN"])
def test_what_is_no_code_stays(name: str) -> None:
    assert header_name(name) == name


def test_a_name_that_is_too_long() -> None:
    assert property_name("n" * 255)
    with pytest.raises(PropertyNameError, match="too long"):
        property_name("n" * 256)


@given(st.text(min_size=1), st.text(), st.sampled_from(["1.0", "1.1", "1.2"]))
def test_no_value_ends_a_header(name: str, value: str, version: str) -> None:
    """Whatever a native client puts into a property, a client of STOMP gets one header, and nothing else."""
    data = b"MESSAGE\n" + header_line(name, value, version) + b"last:1\n\nbody\0"
    [frame] = StompFrameDecoder(Limits(), version).feed(data)
    assert frame.body == b"body"
    assert frame.headers["last"] == "1" or name == "last"
    assert len(frame.headers) == 1 + (name != "last")


def test_destinations() -> None:
    for written, name in (("/queue/a/b", "queue:a/b"), ("/topic/p.#", "topic:p.#"), ("queue:q", "queue:q")):
        assert native_name(written) == name
        assert stomp_name(name, written) == written
    assert stomp_name("another broker's") == "another broker's"
    for written in ("", "q", "/queues/q", "/exchange/x", "/temp-queue/x"):
        with pytest.raises(BadNameError):
            native_name(written)


def test_receipts_keep_their_order() -> None:
    said: list[Sequence[str]] = []
    receipts = Receipts(said.append)
    one, silent, two, three = (receipts.expect(ids) for ids in (["1"], [], ["2", "2b"], ["3"]))
    receipts.done(three)
    receipts.done(two)
    assert said == []
    receipts.done(one)
    assert said == [["1"]]
    receipts.done(silent)
    assert said == [["1"], ["2", "2b"], ["3"]]
    assert receipts.idle


@pytest.mark.parametrize(
    ("said", "beat", "expect"),
    [
        ("0,0", 0, 0),
        ("1000,2000", 2000, 1000),
        ("0,500", 500, 0),
        ("1,1", LEAST, LEAST),
        (f"{LEAST - 1},{LEAST}", LEAST, LEAST),
        (f"{LEAST},{LEAST + 1}", LEAST + 1, LEAST),
    ],
)
def test_heart_beats_are_negotiated(said: str, beat: int, expect: int) -> None:
    greeting = parse_connect({"accept-version": "1.2", "heart-beat": said})
    assert (greeting.send_ms, greeting.expect_ms) == (beat, expect)


def test_1_0_has_no_heart_beats() -> None:
    greeting = parse_connect({"heart-beat": "1000,2000"})
    assert (greeting.version, greeting.send_ms, greeting.expect_ms) == ("1.0", 0, 0)


@pytest.mark.parametrize("said", ["", "1", "a,b", "-1,0", "1,2,3", "1.5,2", "99999999999,0", "٣,٣"])
def test_heart_beats_that_are_none(said: str) -> None:
    with pytest.raises(StompError, match="heart-beat"):
        parse_connect({"heart-beat": said})


class TestFirstBytes:
    @pytest.mark.parametrize("said", [b"CONNECT\n", b"STOMP\n", b"\n\r\nCON", b"SEND\n", b"ACK"])
    def test_stomp(self, said: bytes) -> None:
        assert is_stomp(said)
        assert [is_stomp(said[:size]) for size in range(said.index(said.strip()[:1]) + 2)].count(False) == 0

    def test_native_whatever_the_length_of_its_first_frame(self) -> None:
        for length in range(limits.FRAME_BEFORE_HELLO + 1):
            said = native.header(Kind.HELLO, length=length)
            assert is_stomp(said[:3]) is False
            assert not is_stomp(said[:1])
            assert not is_stomp(said[:2])
            assert is_http(said[:3]) is False

    def test_http(self) -> None:
        assert [is_http(b"GET / HTTP/1.1"[:size]) for size in range(5)] == [None, None, None, True, True]
        assert [is_stomp(b"GET"[:size]) for size in range(4)] == [None, False, False, False]

    @pytest.mark.parametrize("said", [b"GEt", b"GX", b"POST /", b"\n", b"\r\nGET", b"S", b"CONNECT", b"get"])
    def test_what_is_not_http(self, said: bytes) -> None:
        assert is_http(said) is False

    @pytest.mark.parametrize("said", [b"POST / HTTP/1.1\r\n", b"\x16\x03\x01", b"connect\n", b"\n" * 64, b"\0\0\0"])
    def test_anything_else_is_the_native_protocol_s_to_refuse(self, said: bytes) -> None:
        assert is_stomp(said) is False
