"""The null server of STOMP, in the dialect of the embedded broker."""

from mqlab.drivers.null_server.api import NullServer
from mqlab.wire.stomp.batch_encoder import decimals, equal_widths, paste
from mqlab.wire.stomp.decoder import Limits, StompFrameDecoder
from mqlab.wire.stomp.frames import StompFrame, encode, encode_head
from mqlab.wire.stomp.runs import FrameRun

_VERSION = "1.2"
_WRITE_BYTES = 64 * 1024
_LIMITS = Limits(body=256 * 1024 * 1024)


class StompNullServer(NullServer):
    def __init__(self, size: int, batch: int) -> None:
        # A frame holds one message, but a broker writes many frames at once.
        super().__init__(size, max(batch, _WRITE_BYTES // size))
        self._splitter = StompFrameDecoder(_LIMITS, "", frozenset(("receipt",)))

    def handle_data(self, data: memoryview) -> None:
        for frame in self._splitter.feed_runs(bytes(data)):
            command, headers = frame.command, frame.headers
            if command == "CONNECT":
                self.write(encode(StompFrame("CONNECTED", {"version": _VERSION, "server": "mqlab/null"}), _VERSION))
                self._splitter.version = _VERSION
            elif command == "SUBSCRIBE":
                self._messages = self._prepare_messages(headers["id"], headers["destination"])
            if "receipt" in headers:
                self.write(_receipts(frame))

    def _prepare_messages(self, subscription: str, destination: str) -> bytes:
        numbers = self.bodies[:, 4:12].copy().view("<u8").reshape(-1)
        head = encode_head("MESSAGE", {"subscription": subscription, "destination": destination}, _VERSION)
        end = b"\ncontent-length:%d\n\n" % self.size
        frames = []
        for start, stop in equal_widths(numbers):
            ids = decimals(numbers[start:stop])
            parts = (head, b"message-id:", ids, b"\nack:", ids, end, self.bodies[start:stop], b"\0")
            frames.append(paste(stop - start, parts))
        return b"".join(frames)


def _receipts(frame: StompFrame | FrameRun) -> bytes:
    ids = frame.values("receipt") if isinstance(frame, FrameRun) else [frame.headers["receipt"]]
    return b"".join(encode(StompFrame("RECEIPT", {"receipt-id": receipt_id}), _VERSION) for receipt_id in ids)
