"""The protocol itself, frame by frame: the handshake, limits, and errors by the book."""

import socket
import struct

import pytest

from mqlab.broker import limits
from mqlab.broker.server.inprocess.local_broker import LocalBroker
from mqlab.wire.amqp10.encoder import encode
from mqlab.wire.amqp10.frames import AMQP_HEADER, SASL_HEADER, frame
from mqlab.wire.amqp10.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Source,
    Target,
    Transfer,
    composite,
    encode_performative,
    parse,
    symbols,
)
from mqlab.wire.amqp10.types import Described, Symbol

from .raw_amqp import RawAmqp, message


def opened(port: int) -> RawAmqp:
    client = RawAmqp(port)
    client.open()
    client.begin()
    return client


def still_serves(port: int, queue: str) -> bool:
    """Whether the broker still takes and delivers a message of another client."""
    with opened(port) as client:
        client.sender(queue)
        client.expect(Flow)
        client.send(Transfer(0, 0, b"t", 0, False), payload=message(b"other"))
        client.expect(Disposition)
        client.receiver(queue, 1)
        client.send(Flow(0, 100, 1, 100, 1, 0, 1))
        return bool(client.expect(Transfer))


def test_header_without_sasl_is_accepted_where_no_password_is_needed(port: int) -> None:
    with RawAmqp(port) as client:
        offered = symbols(client.open().offered_capabilities)
    assert {"ANONYMOUS-RELAY", "SHARED-SUBS", "DELAYED_DELIVERY", "sole-connection-for-container"} == {*offered}


@pytest.mark.parametrize("mechanism", ["ANONYMOUS", "PLAIN"])
def test_sasl_then_amqp(port: int, mechanism: str) -> None:
    with RawAmqp(port) as client:
        assert client.log_in(mechanism, b"\0user\0password") == 0
        assert client.open().container_id


@pytest.mark.parametrize("header", [b"AMQP\x00\x00\x09\x01", b"AMQP\x02\x01\x00\x00", b"AMQP\x01\x01\x00\x00"])
def test_other_version_is_answered_with_the_supported_header_and_the_end(port: int, header: bytes) -> None:
    with RawAmqp(port) as client:
        assert client.header(header) == SASL_HEADER
        assert client.read_bytes(1) == b""


def test_mechanism_that_is_not_offered_fails(port: int) -> None:
    with RawAmqp(port) as client:
        assert client.log_in("EXTERNAL", b"not offered") == 1
        assert client.read() is None


def test_frame_before_login_is_limited(port: int) -> None:
    with RawAmqp(port) as client:
        client.header(SASL_HEADER)
        client.socket.sendall(struct.pack(">IBBH", limits.FRAME_BEFORE_HELLO + 1, 2, 1, 0))
        # Its end is an outcome, which is all that SASL has.
        while client.read() is not None:
            continue


def test_frame_after_login_is_limited(port: int) -> None:
    with opened(port) as client:
        client.socket.sendall(struct.pack(">IBBH", limits.AMQP_FRAME + 1, 2, 0, 0))
        assert client.closed_with() == "amqp:connection:framing-error"


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (frame(0, b"\x01"), "amqp:decode-error"),
        (frame(0, encode(Described(0x99, []))), "amqp:decode-error"),
        (frame(0, encode(Described(0x12, [7]))), "amqp:decode-error"),
        (frame(0, encode_performative(Open("again"))), "amqp:not-allowed"),
        (frame(9, encode_performative(End())), "amqp:not-allowed"),
        (frame(0, encode_performative(Begin(None, 0, 1, 1))), "amqp:not-allowed"),
        (frame(1, encode_performative(Begin(0, 0, 1, 1))), "amqp:not-allowed"),
        (frame(0, encode_performative(Close()), kind=1), "amqp:connection:framing-error"),
        (b"\0\0\0\x07\x02\0\0\0", "amqp:connection:framing-error"),
    ],
)
def test_error_ends_only_its_connection(port: int, queue: str, data: bytes, condition: str) -> None:
    with opened(port) as client:
        client.socket.sendall(data)
        assert client.closed_with() in (condition, "amqp:illegal-state")
    assert still_serves(port, queue)


def test_frame_before_open_gets_open_and_close(port: int) -> None:
    with RawAmqp(port) as client:
        client.header()
        client.send(Begin(None, 0, 1, 1))
        assert client.closed_with() == "amqp:illegal-state"


@pytest.mark.parametrize(
    ("fields", "condition"),
    [
        ({"max_frame_size": 511}, "amqp:decode-error"),
        ({"idle_time_out": int(limits.AMQP_IDLE_LEAST * 1000) - 1}, "amqp:resource-limit-exceeded"),
        ({"container_id": "x" * (limits.NAME + 1)}, "amqp:invalid-field"),
    ],
)
def test_open_that_cannot_be_served_is_refused(port: int, fields: dict[str, object], condition: str) -> None:
    with RawAmqp(port) as client:
        client.open(**fields)
        assert client.closed_with() == condition


def test_sole_connection_for_a_container(port: int) -> None:
    sole = {"container_id": "the-one", "desired_capabilities": Symbol("sole-connection-for-container")}
    with RawAmqp(port) as first, RawAmqp(port) as second:
        first.open(**sole)
        answer = second.open(**sole)
        assert answer.properties["amqp:connection-establishment-failed"] is True
        error = parse(second.expect(Close).error)
        assert (error.condition, error.info) == ("amqp:invalid-field", {"invalid-field": "container-id"})


def test_idle_client_is_ended(local: LocalBroker, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert local.addresses
    monkeypatch.setattr(limits, "AMQP_IDLE", 0.1)
    with RawAmqp(port) as client:
        assert client.open().idle_time_out == 100
        assert client.closed_with() == "amqp:resource-limit-exceeded"


def test_channels_and_handles_are_limited(port: int) -> None:
    with opened(port) as client:
        client.send(Attach("a", limits.AMQP_LINKS, False, target=composite(Target("q"))))
        assert client.ended_with() == "amqp:resource-limit-exceeded"
        client.send(End())
        client.send(Begin(None, 0, 1, 1), limits.AMQP_SESSIONS)
        assert client.closed_with() == "amqp:not-allowed"


def test_handle_in_use_and_unattached_handle_end_the_session(port: int, queue: str) -> None:
    with opened(port) as client:
        client.sender(queue)
        client.send(Attach("again", 0, False, target=composite(Target(queue))))
        assert client.ended_with() == "amqp:session:handle-in-use"
        client.send(End())
        client.begin()
        client.send(Detach(7))
        assert client.ended_with() == "amqp:session:unattached-handle"
        client.send(End())
        client.begin()
        assert client.sender(queue).target is not None


def test_transfer_without_credit_detaches_the_link(port: int, queue: str) -> None:
    with opened(port) as client:
        client.sender(queue)
        assert client.expect(Flow).link_credit == limits.AMQP_CREDIT
        data = b"".join(
            frame(0, encode_performative(Transfer(0, number, b"t", 0, True)) + message())
            for number in range(limits.AMQP_CREDIT + 1)
        )
        # All in one read or in several: the broker may have granted more meanwhile.
        client.socket.sendall(data)
        performative = client.read()
        assert isinstance(performative, Flow | Detach)


def test_session_window_is_kept_and_renewed(port: int, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "AMQP_WINDOW", 4)
    with opened(port) as client:
        client.sender(queue)
        assert client.expect(Flow).incoming_window == 4
        for number in range(12):
            client.send(Transfer(0, number, b"t", 0, False), payload=message())
            client.expect(Disposition)
        parts = frame(0, encode_performative(Transfer(0, 12, b"t", 0, False, True)) + b"\0") * 6
        client.socket.sendall(parts)
        assert client.ended_with() == "amqp:session:window-violation"


def test_client_window_holds_deliveries_back(port: int, queue: str) -> None:
    with RawAmqp(port) as client:
        client.open()
        client.begin(window=2)
        client.sender(queue)
        client.expect(Flow)
        for number in range(3):
            client.send(Transfer(0, number, b"t", 0, True), payload=message(number))
        client.receiver(queue, 1)
        client.send(Flow(0, 2, 3, 100, 1, 0, 10))
        assert [client.expect(Transfer).delivery_id for _ in range(2)] == [0, 1]
        # The echo is answered after everything that was sent before; the third transfer waits.
        client.send(Flow(0, 2, 3, 100, echo=True))
        assert isinstance(client.read(), Flow)
        client.send(Flow(2, 2, 3, 100))
        assert client.expect(Transfer).delivery_id == 2


def test_message_in_many_transfers_and_an_aborted_one(port: int, queue: str) -> None:
    with opened(port) as client:
        client.sender(queue)
        client.expect(Flow)
        data = message(b"0123456789")
        for at in range(len(data)):
            more = at < len(data) - 1
            client.send(Transfer(0, 0 if not at else None, b"t", 0, False, more), payload=data[at : at + 1])
        assert client.expect(Disposition).first == 0
        client.send(Transfer(0, 1, b"u", 0, False, True), payload=data[:4])
        client.send(Transfer(0, None, None, aborted=True))
        client.send(Transfer(0, 2, b"v", 0, False), payload=message(b"after"))
        assert client.expect(Disposition).first == 2


def test_message_that_is_too_large_detaches_the_link(port: int, queue: str, local: LocalBroker) -> None:
    limit = local.broker.settings.frame_limit - limits.AMQP_SECTIONS_ROOM
    with opened(port) as client:
        assert client.sender(queue).max_message_size == limit
        client.expect(Flow)
        part = bytes(limits.AMQP_FRAME - 100)
        client.send(Transfer(0, 0, b"t", 0, False, True), payload=b"\0\x53\x75\xb0" + struct.pack(">I", limit))
        for _ in range(limit // len(part) + 1):
            client.send(Transfer(0, more=True), payload=part)
        assert client.error(Detach) == "amqp:link:message-size-exceeded"


@pytest.mark.parametrize(
    "data",
    [b"\x01", b"\0\x53\x73\xc0\x02\x01", message() + message("second"), b"\0\x53\x77\xa1\x05ab", b"\0\x53\x70\x45"[:3]],
)
def test_malformed_message_detaches_only_its_link(port: int, queue: str, data: bytes) -> None:
    with opened(port) as client:
        client.sender(queue)
        client.expect(Flow)
        client.send(Transfer(0, 0, b"t", 0, False), payload=data)
        assert client.error(Detach) == "amqp:decode-error"
        client.send(Detach(0, True))
        assert client.sender(queue, 1).target is not None


def test_other_message_format_is_not_implemented(port: int, queue: str) -> None:
    with opened(port) as client:
        client.sender(queue)
        client.expect(Flow)
        client.send(Transfer(0, 0, b"t", 7, False), payload=message())
        assert client.error(Detach) == "amqp:not-implemented"


def test_unknown_transaction_is_refused(port: int, queue: str) -> None:
    with opened(port) as client:
        client.sender(queue)
        client.expect(Flow)
        state = Described(0x34, [b"unknown"])
        client.send(Transfer(0, 0, b"t", 0, False, state=state), payload=message())
        assert client.error(Detach) == "amqp:transaction:unknown-id"


def test_messages_beyond_the_credit_of_the_broker_wait(port: int, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may send what its link credit allows, however large; the broker stops reading, and loses nothing."""
    monkeypatch.setattr(limits, "AMQP_WAITING", 1000)
    with opened(port) as client:
        client.sender(queue)
        client.expect(Flow)
        for number in range(20):
            client.send(Transfer(0, number, b"t", 0, False), payload=message(bytes(100_000)))
        settled = 0
        while settled < 20:
            disposition = client.expect(Disposition)
            last = disposition.first if disposition.last is None else disposition.last
            settled += last - disposition.first + 1
        assert settled == 20


def test_source_that_is_not_a_source_ends_the_connection(port: int, queue: str) -> None:
    with opened(port) as client:
        client.send(Attach("r", 0, True, source=composite(Target(queue))))
        assert client.closed_with() == "amqp:decode-error"


def test_filters_that_the_broker_does_not_know_are_left_out_of_its_answer(port: int, queue: str) -> None:
    filters = {
        Symbol("known"): Described(Symbol("apache.org:selector-filter:string"), "a = 1"),
        Symbol("unknown"): Described(Symbol("example.com:filter"), "x"),
    }
    with opened(port) as client:
        client.send(Attach("r", 0, True, source=composite(Source(queue, filter=filters))))
        source = parse(client.expect(Attach).source)
    assert [*source.filter] == ["known"]


def test_close_is_answered(port: int) -> None:
    with opened(port) as client:
        client.send(Close())
        assert client.expect(Close).error is None
        assert client.read() is None


def test_header_in_pieces_is_recognized(port: int) -> None:
    peer = socket.create_connection(("127.0.0.1", port))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with RawAmqp(port, peer) as client:
        for at in range(len(AMQP_HEADER) - 1):
            client.socket.sendall(AMQP_HEADER[at : at + 1])
        assert client.header(AMQP_HEADER[-1:]) == AMQP_HEADER
