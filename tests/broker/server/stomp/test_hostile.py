"""Clients that break the rules, or cannot keep up: they are told so, or made to wait, and disturb nobody else."""

from collections.abc import Iterator

import psutil
import pytest

from mqlab.broker import limits

from .stomp_clients import BINARY_WEBSOCKET, VERSIONS, Client, Process, Raw, broker, frame

MIB = 1024 * 1024


@pytest.fixture
def other(process: Process, name: str) -> Iterator[None]:
    """Somebody else, who notices nothing."""
    with Client(process.port) as client:
        client.subscribe(f"/queue/other.{name}")
        yield
        client.send(f"/queue/other.{name}", b"still here")
        assert client.bodies(1) == [b"still here"]


WHOLE = (
    frame("CONNECT", **{"accept-version": "1.2", "host": "x"})
    + b"\n\r\n"
    + frame("SUBSCRIBE", id="1", destination="/queue/NAME", ack="client", receipt="subscribed")
    + frame("BEGIN", transaction="t")
    + b"SEND\r\ndestination:/queue/NAME\r\ncolour:r\\ced\r\ntransaction:t\r\n\r\nup to the NUL\0"
    + frame("SEND", b"with\0NUL", destination="/queue/NAME", transaction="t")
    + frame("COMMIT", transaction="t", receipt="committed")
    + b"\n"
)


def test_any_cut_of_the_bytes_is_read_the_same(process: Process, name: str) -> None:
    said = WHOLE.replace(b"NAME", name.encode())
    for cut in range(1, len(said), 5):
        with Raw(process.port, greet=False) as raw:
            raw.bytes(said[:cut])
            raw.bytes(said[cut:])
            heard = [raw.read() for _ in range(5)]
            assert [one.command for one in heard[:2]] == ["CONNECTED", "RECEIPT"]
            messages = [one for one in heard if one.command == "MESSAGE"]
            assert [one.body for one in messages] == [b"up to the NUL", b"with\0NUL"]
            assert messages[0].headers["colour"] == "r:ed"
            raw.write("ACK", id=messages[1].headers["ack"])
            raw.write("DISCONNECT", receipt="bye")
            assert raw.read().headers["receipt-id"] == "bye"


def test_a_byte_at_a_time(process: Process, name: str) -> None:
    with Raw(process.port, greet=False) as raw:
        for byte in WHOLE.replace(b"NAME", name.encode()):
            raw.bytes(bytes([byte]))
        assert [raw.read().command for _ in range(5)].count("MESSAGE") == 2


BEFORE = [
    b"SEND\ndestination:/queue/x\n\nhello\0", b"SUBSCRIBE\nid:1\ndestination:/queue/x\n\n\0", b"DISCONNECT\n\n\0",
    b"CONNECT\npasscode secret\n\n\0", b"STOMP\n\0\0\0", b"CONNECTED\n\n\0", b"CONNECT\nheart-beat:often\n\n\0",
    b"\n\n\nMESSAGE\n\n\0", b"CONNECT\naccept-version:1.2\n" + b"x:y\n" * 101 + b"\n\0",
    b"CONNECT\nlong:" + b"x" * limits.FRAME_BEFORE_HELLO, b"CONNECT\n\xff:x\n\n\0",
]  # fmt: skip


@pytest.mark.parametrize("said", BEFORE)
@pytest.mark.usefixtures("other")
def test_nothing_but_connect_is_the_first_frame(process: Process, said: bytes) -> None:
    with Raw(process.port, greet=False) as raw:
        raw.bytes(said)
        error = raw.is_ended()
        assert "CONNECT" in error.headers["message"] or "heart-beat" in error.headers["message"]
        assert "secret" not in error.body.decode()


def test_a_version_nobody_speaks(process: Process) -> None:
    with Raw(process.port, greet=False) as raw:
        raw.write("CONNECT", **{"accept-version": "0.9,2.0", "host": "x"})
        assert raw.is_ended().headers["version"] == "1.0,1.1,1.2"


def test_of_several_versions_the_highest_is_spoken(process: Process) -> None:
    for offered, chosen in (("1.0,1.1,1.2", "1.2"), ("1.0,1.1", "1.1"), (None, "1.0"), ("1.2,2.0", "1.2")):
        with Raw(process.port, greet=False) as raw:
            raw.write("CONNECT", **({} if offered is None else {"accept-version": offered}))
            assert raw.read().headers["version"] == chosen


AFTER = [
    (b"NONSENSE\n\n\0", "not a frame"),
    (b"\0\0\0\0" * 20, "not a frame"),
    (b"SEND\n\nx\0", "SEND needs a destination"),
    (b"SEND\ndestination:/queue/x\ncontent-length:3\n\nabcd\0", "no NUL"),
    (b"SEND\ndestination:/queue/x\ncontent-length:-1\n\n\0", "is not a length"),
    (b"SEND\ndestination:/queue/x\ncontent-length:99999999999\n\n", "the limit is"),
    (b"SEND\ndestination:/queue/x\nbad\\escape:x\n\n\0", "escape"),
    (b"SEND\ndestination:/queue/\n\n\0", "1 to 255 bytes"),
    (b"SEND\ndestination:/queue/" + b"n" * 256 + b"\n\n\0", "1 to 255 bytes"),
    (b"SEND\ndestination:/queue/a\\nb\n\n\0", "printable"),
    (b"SEND\ndestination:/topic/a.*\n\n\0", "only subscriptions to topics"),
    (b"SEND\ndestination:/queue/x\nno colon\n\nx\0", "not a header"),
    (b"SEND\ndestination:/queue/x\ntransaction:t\n\nx\0", "no transaction 't'"),
    (b"SEND\ndestination:/queue/x\nexpires:soon\n\nx\0", "expires"),
    (b"SEND\ndestination:/queue/x\npersistent:maybe\n\nx\0", "neither true nor false"),
    (b"SEND\ndestination:/queue/x\n" + b"p" * 300 + b":x\n\nx\0", "too long"),
    (b"SEND\ndestination:/temp-queue/\n\nx\0", "1 to 255 bytes"),
    (b"SUBSCRIBE\ndestination:/queue/x\n\n\0", "needs an id"),
    (b"SUBSCRIBE\nid:1\n\n\0", "needs a destination"),
    (b"SUBSCRIBE\nid:1\ndestination:/queue/x\nack:perhaps\n\n\0", "none of auto, client, client-individual"),
    (b"SUBSCRIBE\nid:1\ndestination:/queue/x\nprefetch:many\n\n\0", "prefetch"),
    (b"SUBSCRIBE\nid:1\ndestination:/queue/x\nprefetch:1000001\n\n\0", "prefetch"),
    (b"SUBSCRIBE\nid:1\ndestination:/queue/x\ndurable:true\n\n\0", "for subscriptions to topics"),
    (b"SUBSCRIBE\nid:1\ndestination:/queue/y\n\n\0SUBSCRIBE\nid:1\ndestination:/queue/x\n\n\0", "already"),
    (b"SUBSCRIBE\nid:1\ndestination:/topic/x\nselector:a b\n\n\0", "selector"),
    (b"UNSUBSCRIBE\nid:7\n\n\0", "no subscription '7'"),
    (b"UNSUBSCRIBE\nid:7\ndurable:true\n\n\0", "no durable subscription"),
    (b"ACK\n\n\0", "ACK of STOMP 1.2 needs id"),
    (b"ACK\nid:1-2-3\n\n\0", "not a message of this connection"),
    (b"NACK\nid:x\n\n\0", "not a message of this connection"),
    (b"BEGIN\n\n\0", "needs a name"),
    (b"BEGIN\ntransaction:t\n\n\0BEGIN\ntransaction:t\n\n\0", "has begun already"),
    (b"COMMIT\ntransaction:t\n\n\0", "no transaction"),
    (b"ABORT\ntransaction:t\n\n\0", "no transaction"),
    (b"CONNECT\naccept-version:1.2\n\n\0", "not a frame that a client sends now"),
    (b"MESSAGE\n\n\0", "not a frame that a client sends now"),
    (b"BEGIN\ntransaction:t\n\nbody\0", "cannot have a body"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "words"), AFTER)
@pytest.mark.usefixtures("other")
def test_what_is_wrong_is_said_and_ends_the_connection(process: Process, said: bytes, words: str) -> None:
    with Raw(process.port) as raw:
        raw.bytes(said)
        error = raw.is_ended()
        assert words in error.headers["message"]
        assert words in error.body.decode()


LINE_ENDS = (b"\n", b"\r\n", b"\n\n\r\n")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("ends", LINE_ENDS)
def test_line_ends_after_the_headers_or_between_frames_are_ignored(
    process: Process, version: str, ends: bytes, name: str
) -> None:
    """Other brokers ignore them, too, so clients send them."""
    commands = (
        frame("CONNECT", **{"accept-version": version, "host": "x"}),
        frame("SUBSCRIBE", id="1", destination=f"/queue/{name}", receipt="r1"),
        frame("BEGIN", transaction="t", receipt="r2"),
        frame("ABORT", transaction="t", receipt="r3"),
        frame("UNSUBSCRIBE", id="1", receipt="r4"),
        frame("DISCONNECT", receipt="r5"),
    )
    for after_headers, after_frame in ((ends, b""), (b"", ends), (ends, ends)):
        with Raw(process.port, version, greet=False) as raw:
            raw.bytes(after_frame + b"".join(one[:-1] + after_headers + b"\0" + after_frame for one in commands))
            heard = [raw.read() for _ in commands]
            assert [one.headers.get("receipt-id") for one in heard] == [None, "r1", "r2", "r3", "r4", "r5"]
            assert not any(one.body for one in heard)


def test_line_ends_are_the_body_of_a_message(process: Process, name: str) -> None:
    with Raw(process.port) as raw:
        raw.write("SUBSCRIBE", id="1", destination=f"/queue/{name}", receipt="r")
        raw.read()
        for ends in LINE_ENDS:
            raw.bytes(f"SEND\ndestination:/queue/{name}\n\n".encode() + ends + b"\0")
            assert raw.read().body == ends


SETTLED_BY = {"1.0": {"message-id"}, "1.1": {"message-id", "subscription"}, "1.2": {"id"}}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("command", ["ACK", "NACK"])
def test_each_version_names_a_message_by_its_own_headers(
    process: Process, version: str, command: str, name: str
) -> None:
    about = {"destination": f"/queue/{name}", "receipt": "r"}
    for left_out in (None, *SETTLED_BY[version]):
        with Raw(process.port, version) as raw:
            raw.write("SUBSCRIBE", id="s", ack="client", **about)
            raw.write("SEND", b"x", **about)
            heard = [raw.read() for _ in range(3)]
            message = next(one.headers for one in heard if one.command == "MESSAGE")
            values = {
                "message-id": message["message-id"], "id": message.get("ack", message["message-id"]),
                "subscription": "s",
            }  # fmt: skip
            if left_out is None:
                # Those of other versions mean nothing, and do no harm.
                raw.write(command, **values, receipt="settled")
                assert raw.read().headers.get("receipt-id") in ("settled", None)
            else:
                raw.write(
                    command, **{key: value for key, value in values.items() if key != left_out}, receipt="settled"
                )
                error = raw.is_ended().headers
                assert error["message"] == f"{command} of STOMP {version} needs {left_out}"
                assert error["receipt-id"] == "settled"


def test_a_message_of_another_subscription_is_refused(process: Process, name: str) -> None:
    with Raw(process.port, "1.1") as raw:
        raw.write("SUBSCRIBE", id="s", destination=f"/queue/{name}", ack="client", receipt="r")
        raw.read()
        raw.write("SEND", b"x", destination=f"/queue/{name}")
        raw.write("ACK", **{"message-id": raw.read().headers["message-id"], "subscription": "another"})
        assert "not the subscription" in raw.is_ended().headers["message"]


def test_an_error_names_the_receipt_that_was_wanted(process: Process) -> None:
    for said in ("SEND", "SUBSCRIBE", "COMMIT", "ACK"):
        with Raw(process.port) as raw:
            raw.write(said, id="1", destination="nowhere", transaction="none", receipt="r7")
            assert raw.is_ended().headers["receipt-id"] == "r7"


def test_what_came_before_a_bad_frame_is_done(process: Process, name: str) -> None:
    with Raw(process.port) as raw:
        raw.bytes(frame("SEND", b"good", destination=f"/queue/{name}") + b"NONSENSE\n\n\0")
        raw.is_ended()
    with Client(process.port) as client:
        client.subscribe(f"/queue/{name}")
        assert client.bodies(1) == [b"good"]


def test_delivery_ids_that_never_were_are_refused(process: Process, name: str) -> None:
    with Raw(process.port) as raw:
        raw.write("SUBSCRIBE", id="1", destination=f"/queue/{name}", ack="client", receipt="r")
        raw.write("SEND", b"x", destination=f"/queue/{name}")
        heard = [raw.read() for _ in range(2)]
        given = next(one.headers["ack"] for one in heard if one.command == "MESSAGE")
        raw.write("ACK", id=f"{given}0")
        assert "not delivered yet" in raw.is_ended().headers["message"]


class TestLimits:
    def send(self, process: Process, name: str, body: bytes = b"x", /, **headers: str) -> str:
        """What the broker answers."""
        with Raw(process.port) as raw:
            raw.write("SEND", body, destination=f"/queue/{name}", receipt="r", **headers)
            answer = raw.read()
            return answer.command + answer.headers.get("message", "")

    def test_the_number_of_headers(self, process: Process, name: str) -> None:
        # Those of the frame itself are destination, receipt and content-length.
        for more, answer in ((-1, "RECEIPT"), (0, "RECEIPT"), (1, "ERROR101 headers; the limit is 100")):
            headers = {f"h{number}": "x" for number in range(limits.STOMP_HEADERS - 3 + more)}
            assert self.send(process, name, **headers) == answer

    def test_the_length_of_a_header(self, process: Process, name: str) -> None:
        room = limits.STOMP_HEADER - len("long:")
        refused = "ERRORa header of 8193 characters; the limit is 8192"
        for more, answer in ((-1, "RECEIPT"), (0, "RECEIPT"), (1, refused)):
            assert self.send(process, name, long="x" * (room + more)) == answer

    def test_the_length_of_all_headers(self, process: Process, name: str) -> None:
        assert self.send(process, name, **{f"h{n}": "x" * 8000 for n in range(8)}) == "RECEIPT"
        assert "the limit is" in self.send(process, name, **{f"h{n}": "x" * 8000 for n in range(9)})

    def test_the_length_of_a_body(self) -> None:
        most = MIB - limits.STOMP_HEAD_ROOM
        large = {f"h{n}": "x" * 8000 for n in range(8)}
        with broker("--max-message-size=1MiB") as process:
            for more, answer in ((-1, "RECEIPT"), (0, "RECEIPT"), (1, "ERROR")):
                said = self.send(process, f"q{more}", b"x" * (most + more), **large)
                assert said.startswith(answer)
                if answer == "ERROR":
                    assert f"the limit is {most}" in said
            with Raw(process.port) as raw:
                # Without a length.
                raw.bytes(b"SEND\ndestination:/queue/q\n\n")
                raw.bytes(b"x" * (most + MIB))
                assert f"the limit is {most}" in raw.is_ended().headers["message"]

    def test_a_body_of_more_than_16_mib_arrives(self, process: Process, name: str) -> None:
        body = bytes(range(256)) * (17 * MIB // 256)
        with Raw(process.port) as raw, Client(process.port, BINARY_WEBSOCKET) as client:
            client.send(f"/queue/{name}", body, persistent="true")
            # stomp.py reads a KiB at a time.
            raw.write("SUBSCRIBE", id="1", destination=f"/queue/{name}")
            assert raw.read().body == body
            client.subscribe(f"/queue/{name}.back")
            raw.write("SEND", body, destination=f"/queue/{name}.back")
            assert client.message().body == body


def test_a_silent_client_is_gone_after_a_while(process: Process) -> None:
    with Raw(process.port, greet=False) as raw:
        raw.write("CONNECT", **{"accept-version": "1.2", "heart-beat": "100,0"})
        assert raw.read().headers["heart-beat"] == "0,100"
        assert "no heart-beat" in raw.is_ended().headers["message"]


def test_a_full_queue_makes_its_producer_wait_and_memory_is_bounded(tmp_path_factory: pytest.TempPathFactory) -> None:
    data = tmp_path_factory.mktemp("data")
    with broker(f"--data={data}", "--queue-limit=1MiB", "--producer-window=64KiB") as process:
        memory = psutil.Process(process.pid)
        with Raw(process.port) as raw, Client(process.port) as client:
            before = memory.memory_info().rss
            raw.socket.settimeout(0.5)
            with pytest.raises(TimeoutError):
                raw.bytes(frame("SEND", b"x" * 1000, destination="/queue/full") * 100_000)
            assert memory.memory_info().rss - before < 24 * MIB
            # Others go on, and so does this one when there is room.
            client.send("/queue/not-full", b"y")
            client.subscribe("/queue/full")
            assert client.bodies(1500) == [b"x" * 1000] * 1500


def test_a_consumer_that_does_not_read_holds_nobody_up(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What it had no room for is anybody's; what was on its way to it comes back, marked."""
    data = tmp_path_factory.mktemp("data")
    count, size = 1000, 20_000
    with broker(f"--data={data}", "--queue-limit=64MiB") as process, Client(process.port) as client:
        with Raw(process.port, receive_buffer=4096) as slow:
            slow.write("SUBSCRIBE", id="1", destination="/queue/q", prefetch="10")
            for number in range(count):
                client.c.send("/queue/q", b"%05d" % number + bytes(size))
            client.sync()
            client.subscribe("/queue/q")
            client.message()
        rest = {int(client.message().body[:5]) for _ in range(count // 2)}
        assert len(rest) == count // 2


def test_a_dead_client_gives_everything_back_marked(process: Process, name: str) -> None:
    with Client(process.port) as client:
        with Raw(process.port) as raw:
            raw.write("SUBSCRIBE", id="1", destination=f"/queue/{name}", ack="client-individual", receipt="r")
            raw.read()
            for body in (b"1", b"2"):
                client.send(f"/queue/{name}", body)
            assert [raw.read().body for _ in range(2)] == [b"1", b"2"]
        client.subscribe(f"/queue/{name}")
        messages = [client.message() for _ in range(2)]
        assert [(one.body, one.headers["redelivered"]) for one in messages] == [(b"1", "true"), (b"2", "true")]
