"""What other clients write, byte for byte: each sequence was recorded from the client that it names."""

import pytest

from .stomp_clients import Process, Raw

CONNECT = b"CONNECT\nhost:127.0.0.1\nheart-beat:0,0\naccept-version:1.0,1.1,1.2\n\n\0"


@pytest.mark.parametrize("at_once", [True, False])
def test_go_stomp_unsubscribes_before_the_subscription_is_open(process: Process, name: str, at_once: bool) -> None:
    """It asks for a receipt for UNSUBSCRIBE, with the id of the subscription, and waits for it."""
    destination = name.encode()
    subscribe = b"SUBSCRIBE\ndestination:/queue/%b\nack:client-individual\nid:19\n\n\0" % destination
    unsubscribe = b"UNSUBSCRIBE\nid:19\nreceipt:19\n\n\0"
    with Raw(process.port, greet=False) as raw:
        for data in (CONNECT + subscribe + unsubscribe,) if at_once else (CONNECT, subscribe, unsubscribe):
            raw.bytes(data)
        assert raw.read().command == "CONNECTED"
        assert raw.read().headers["receipt-id"] == "19"
        raw.bytes(b"DISCONNECT\nreceipt:20\n\n\0")
        assert raw.read().headers["receipt-id"] == "20"
        with pytest.raises(EOFError):
            raw.read()


def test_go_stomp_commits_what_it_acknowledges_and_does_not_wait(process: Process, name: str) -> None:
    destination = name.encode()
    with Raw(process.port, greet=False) as raw:
        raw.bytes(CONNECT)
        raw.read()
        raw.bytes(
            b"SUBSCRIBE\ndestination:/queue/%b\nack:client-individual\nid:1\n\n\0"
            b"SEND\ncontent-length:1\ndestination:/queue/%b\ncontent-type:text/plain\nreceipt:2\n\nx\0"
            % (destination, destination)
        )
        heard = [raw.read() for _ in range(2)]
        message = next(one.headers["ack"] for one in heard if one.command == "MESSAGE")
        raw.bytes(
            b"BEGIN\ntransaction:10\n\n\0ACK\nid:%b\ntransaction:10\n\n\0"
            b"SEND\ncontent-length:1\ndestination:/queue/%b.out\ncontent-type:text/plain\ntransaction:10\n\ny\0"
            b"COMMIT\ntransaction:10\n\n\0UNSUBSCRIBE\nid:1\nreceipt:1\n\n\0DISCONNECT\nreceipt:18\n\n\0"
            % (message.encode(), destination)
        )
        assert [raw.read().headers["receipt-id"] for _ in range(2)] == ["1", "18"]


def test_stompit_writes_a_line_end_after_each_frame_and_cuts_frames(process: Process, name: str) -> None:
    """Its ACK has the headers of every version; the NUL of a frame may come with the next write."""
    destination = name.encode()
    with Raw(process.port, greet=False) as raw:
        raw.bytes(b"CONNECT\naccept-version:1.0,1.1,1.2\nhost:/\nheart-beat:0,0\n\n\0\n")
        assert raw.read().headers["version"] == "1.2"
        raw.bytes(b"SEND\ndestination:/queue/%b\n\n" % destination)
        raw.bytes(b"hello\0\nSUBSCRIBE\ndestination:/queue/%b\nack:client-individual\nid:1\n\n\0\n" % destination)
        message = raw.read()
        assert message.body == b"hello"
        given = message.headers["ack"].encode()
        raw.bytes(b"ACK\nsubscription:1\nmessage-id:%b\nid:%b\n\n" % (given, given))
        raw.bytes(b"\0\nBEGIN\ntransaction:1\n\n\0\n")
        raw.bytes(b"SEND\ndestination:/queue/%b.out\ntransaction:1\n\ny\0\n" % destination)
        raw.bytes(b"COMMIT\ntransaction:1\nreceipt:1\n\n\0\nUNSUBSCRIBE\nid:1\n\n\0\nDISCONNECT\nreceipt:2\n\n\0\n")
        assert [raw.read().headers["receipt-id"] for _ in range(2)] == ["1", "2"]
