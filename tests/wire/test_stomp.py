import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.wire.stomp.decoder import Limits, StompFrameDecoder
from mqlab.wire.stomp.frames import VERSIONS, StompError, StompFrame, encode, escape, unescape

_SMALL = Limits(headers=3, line=20, head=40, body=10)
_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
_SAFE = st.text("abc-:\\ é", max_size=8)


def split(data: bytes, version: str = "1.2", limits: Limits | None = None) -> list[StompFrame]:
    return list(StompFrameDecoder(limits or Limits(), version).feed(data))


def plain(frames: list[StompFrame]) -> list[tuple[str, dict[str, str], bytes]]:
    return [(frame.command, dict(frame.headers), frame.body) for frame in frames]


@settings(deadline=None)
@given(st.sampled_from(("1.1", "1.2")), st.dictionaries(_TEXT.filter(bool), _TEXT, max_size=4), st.binary(max_size=30))
def test_what_was_encoded_comes_back(version: str, headers: dict[str, str], body: bytes) -> None:
    if version == "1.1":
        headers = {name.replace("\r", ""): value.replace("\r", "") for name, value in headers.items()}
        headers.pop("", None)
    headers.pop("content-length", None)
    [frame] = split(encode(StompFrame("SEND", headers, body), version), version)
    assert plain([frame]) == [("SEND", {**headers, "content-length": str(len(body))}, body)]


@settings(deadline=None)
@given(st.sampled_from(VERSIONS), _SAFE)
def test_the_words_of_the_greeting_are_never_escaped(version: str, value: str) -> None:
    written = encode(StompFrame("CONNECTED", {"server": value}), version)
    assert written == b"CONNECTED\nserver:" + value.encode() + b"\n\n\0"
    # Without escapes there is nothing that keeps blanks at the ends.
    assert split(written, "")[0].headers["server"] == value.strip(" ")


@pytest.mark.parametrize(("version", "written"), [
    ("1.0", "a\\b:c"),
    ("1.1", "a\\\\b\\cc"),
    ("1.2", "a\\\\b\\cc"),
])  # fmt: skip
def test_each_version_has_its_escapes(version: str, written: str) -> None:
    assert escape("a\\b:c", version) == written
    assert unescape(written, version) == "a\\b:c"


def test_a_carriage_return_is_escaped_in_1_2_only() -> None:
    assert escape("\r\n", "1.2") == "\\r\\n"
    assert escape("\r\n", "1.1") == "\r\\n"
    with pytest.raises(StompError, match=r"1\.1 has no escape"):
        unescape("\\r", "1.1")


@pytest.mark.parametrize("text", ["\\", "\\t", "a\\x\\c", "\\\\\\"])
def test_an_escape_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(StompError, match="no escape"):
        unescape(text, "1.2")


def test_1_0_cannot_write_what_would_end_a_line() -> None:
    with pytest.raises(StompError, match="line end"):
        encode(StompFrame("SEND", {"a": "b\nc"}), "1.0")
    with pytest.raises(StompError, match="line end"):
        encode(StompFrame("CONNECT", {"a": "b\0"}), "1.2")
    with pytest.raises(StompError, match="the name"):
        encode(StompFrame("SEND", {"a:b": "c"}), "1.0")


def test_a_frame_without_a_body_gets_none() -> None:
    assert encode(StompFrame("BEGIN", {"transaction": "t"}), "1.2") == b"BEGIN\ntransaction:t\n\n\0"
    with pytest.raises(StompError, match="BEGIN cannot have a body"):
        encode(StompFrame("BEGIN", {}, b"x"), "1.2")
    with pytest.raises(StompError, match="BEGIN cannot have a body"):
        split(b"BEGIN\n\nx\0")


def test_of_repeated_headers_the_first_counts() -> None:
    assert split(b"SEND\nfoo:World\nfoo:Hello\n\n\0")[0].headers == {"foo": "World"}


def test_blanks_around_a_value_count_from_1_1_on() -> None:
    assert split(b"SEND\nfoo: a \n\n\0", "1.0")[0].headers == {"foo": "a"}
    assert split(b"SEND\nfoo: a \n\n\0", "1.1")[0].headers == {"foo": " a "}


def test_lines_of_1_2_may_end_with_a_carriage_return() -> None:
    frames = split(b"\r\nSEND\r\nfoo:a\r\nbar:b\n\r\nbody\n\n\0\r\n\nSEND\n\r\n\0")
    assert plain(frames) == [("SEND", {"foo": "a", "bar": "b"}, b"body\n\n"), ("SEND", {}, b"")]


def test_a_carriage_return_is_a_part_of_a_value_before_1_2() -> None:
    assert split(b"SEND\nfoo:a\r\n\n\0", "1.1")[0].headers == {"foo": "a\r"}
    with pytest.raises(StompError, match="not a frame"):
        split(b"SEND\r\nfoo:a\n\n\0", "1.1")


def test_a_body_ends_with_its_length_or_with_the_first_nul() -> None:
    frames = split(b"SEND\ncontent-length:3\n\n\0\0\n\0SEND\n\nabc\0\n\n\nMESSAGE\n\n\0")
    assert [frame.body for frame in frames] == [b"\0\0\n", b"abc", b""]


@pytest.mark.parametrize(("data", "says"), [
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "not a frame: 'GET"),
    (b"send\n\n\0", "not a frame: 'send'"),
    (b"x" * 32, "not a frame"),
    (b"SEND\nfoo\n\n\0", "not a header: 'foo'"),
    (b"SEND\n:foo\n\n\0", "not a header: ':foo'"),
    (b"SEND\nfoo:\\t\n\n\0", "no escape"),
    (b"SEND\nfoo:\xff\n\n\0", "UTF-8"),
    (b"SEND\ncontent-length:-1\n\n\0", "not a length"),
    (b"SEND\ncontent-length:1x\n\nx\0", "not a length"),
    (b"SEND\ncontent-length:\n\n\0", "not a length"),
    (b"SEND\ncontent-length:2\n\nxxx\0", "no NUL after a body of 2 bytes"),
    (b"SEND\nfoo:a\0", "without an empty line"),
    (b"SEND\nfoo:a\0\n\n", "without an empty line"),
])  # fmt: skip
def test_what_is_no_frame_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(StompError, match=says):
        split(data)


@pytest.mark.parametrize(("good", "bad", "says"), [
    (b"SEND\n" + b"a:b\n" * 3 + b"\n\0", b"SEND\n" + b"a:b\n" * 4 + b"\n\0", "4 headers; the limit is 3"),
    (b"SEND\na:" + b"b" * 18 + b"\n\n\0", b"SEND\na:" + b"b" * 19 + b"\n\n\0", "a header of 21 characters"),
    (b"SEND\n" + b"a:%b\n" % (b"b" * 15) * 2 + b"\n\0", b"SEND\n" + b"a:%b\n" % (b"b" * 16) * 2 + b"\n\0", "42 bytes"),
    (b"SEND\ncontent-length:10\n\n" + b"x" * 10 + b"\0", b"SEND\ncontent-length:11\n\n", "11 bytes; the limit is 10"),
    (b"SEND\n\n" + b"x" * 10 + b"\0", b"SEND\n\n" + b"x" * 11, "11 bytes; the limit is 10"),
])  # fmt: skip
def test_limits(good: bytes, bad: bytes, says: str) -> None:
    assert len(split(good, "1.2", _SMALL)) == 1
    with pytest.raises(StompError, match=says):
        split(bad, "1.2", _SMALL)


@pytest.mark.parametrize(("begin", "says"), [(b"SEND\n\n", "the limit is 10"), (b"SEND\na:", "more than 40 bytes")])
def test_what_does_not_end_is_not_kept_for_ever(begin: bytes, says: str) -> None:
    splitter = StompFrameDecoder(_SMALL, "1.2")

    def feed() -> None:
        for part in (begin, *[b"x"] * 100):
            list(splitter.feed(part))

    with pytest.raises(StompError, match=says):
        feed()


_STREAM = (
    b"CONNECT\r\naccept-version:1.2\r\nlogin:a\\b\r\n\r\n\0\r\n\n"
    b"SEND\ncontent-length:5\ndestination:/queue/a\\cb\n\n\0\n\n\0\n\0\n"
    b"SEND\r\nfoo:a\\rb\r\n\r\nabc\n\n\0MESSAGE\n\n\0\n\nRECEIPT\nreceipt-id:1\n\n\0"
)


def test_any_cut_gives_the_same_frames() -> None:
    expected = plain(split(_STREAM))
    assert [command for command, _, _ in expected] == ["CONNECT", "SEND", "SEND", "MESSAGE", "RECEIPT"]
    for cut in range(len(_STREAM) + 1):
        splitter = StompFrameDecoder(Limits(), "1.2")
        assert plain([*splitter.feed(_STREAM[:cut]), *splitter.feed(_STREAM[cut:])]) == expected
    splitter = StompFrameDecoder(Limits(), "1.2")
    assert plain([frame for at in range(len(_STREAM)) for frame in splitter.feed(_STREAM[at : at + 1])]) == expected


def test_good_frames_come_out_before_the_error() -> None:
    splitter = StompFrameDecoder(Limits(), "1.2")
    frames = splitter.feed(b"BEGIN\ntransaction:1\n\n\0NONSENSE\n\n\0")
    assert next(frames).command == "BEGIN"
    with pytest.raises(StompError, match="NONSENSE"):
        next(frames)


def test_the_version_may_change_between_two_frames_of_one_read() -> None:
    splitter = StompFrameDecoder(Limits())
    values = []
    for frame in splitter.feed(b"CONNECT\nv:\\c\n\n\0SEND\nv:\\c\n\n\0SEND\nv:\\c\n\n\0"):
        values.append(frame.headers["v"])
        splitter.version = "1.2"
    assert values == ["\\c", ":", ":"]


def test_frames_that_nobody_took_are_still_there() -> None:
    splitter = StompFrameDecoder(Limits(), "1.2")
    first = next(iter(splitter.feed(b"BEGIN\n\n\0COMMIT\n\n\0")))
    assert [first.command, *(frame.command for frame in splitter.feed(b"ABORT\n\n\0"))] == ["BEGIN", "COMMIT", "ABORT"]
