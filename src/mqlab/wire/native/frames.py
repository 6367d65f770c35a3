"""The native protocol: frames with a fixed header of 24 bytes, little-endian.

length u32   of the payload                    link   u32   number of a producer or consumer of the connection
kind   u8    see Kind                          first  u64   a sequence number or delivery id
flags  u8    see Flag                          amount u32   rows, or credit
session u16  number of a session of the connection
"""

import json
import struct
from enum import IntEnum, IntFlag
from typing import Final, NamedTuple

from mqlab.errors import MqlabError
from mqlab.json_values import JsonObject
from mqlab.wire.native.bodies import Buffer
from mqlab.wire.receive_buffers import receive_buffer

VERSION: Final = 1
HEADER: Final = struct.Struct("<IBBHIQI")
HEADER_SIZE: Final = HEADER.size
_unpack: Final = HEADER.unpack_from


class Kind(IntEnum):
    # both ways
    HELLO = 1  # the first frame of either side; JSON: version, and the name of the sender
    ERROR = 2  # JSON: code, message; refers to the frame with that session, link, first, amount; all 0: the connection
    CLOSE = 3  # a link or (link 0) a session; of a consumer, first: the last delivery id its application has seen
    CLOSED = 4  # everything before the CLOSE is done
    # client to broker
    OPEN_SESSION = 10  # JSON: transacted; shared: its subscriptions belong to no client id
    OPEN_PRODUCER = 11  # JSON: destination
    OPEN_CONSUMER = 12  # JSON: destination and consumer options; amount: credit, in messages
    SEND = 13  # first: sequence number of the first row; amount: rows
    ACKNOWLEDGE = 14  # first: the last delivery id that is acknowledged; amount: more credit, in messages
    ACKNOWLEDGE_ROWS = 15  # first: a delivery id; amount: number of ids acknowledged from it on; session: transaction
    RECEIVE = 16  # one message, by the id in the payload: flag NONE a correlation id, SINGLE a message id (16 bytes);
    # first: as of ACKNOWLEDGE
    CANCEL = 17  # take all credit and the pending RECEIVE of a consumer back; the broker replies with CANCELLED
    COMMIT = 18
    ROLLBACK = 19  # redeliver what a session, or (link) a consumer, has not acknowledged; first: last delivery id seen;
    # amount > 0: return that many deliveries from first on, as never delivered or (REDELIVERED) as delivered, or
    # (REJECTED) move them to the dead letter queue; no reply
    ASK = 20  # JSON: an administrative request; first: its number
    REQUEST = 21  # SEND of a single message, and RECEIVE of its reply by the consumer whose link is the amount;
    # acknowledges everything that was delivered to that consumer. Without it, RR8 has 22 % fewer round trips a second
    # of processor time (bench/cpu_time.py OLD --key RR8)
    # broker to client
    OPENED = 30  # a session, producer or consumer is open
    DELIVER = 31  # first: delivery id of the first row; amount: rows; session: number of earlier deliveries
    CONFIRM = 32  # first: all rows up to this sequence number are safe
    CREDIT = 33  # amount: the producer may send so many bytes more
    COMMITTED = 34
    ROLLED_BACK = 35
    CANCELLED = 36
    ORIGIN = 37  # payload: name of the destination to which the messages of the next DELIVER frames were sent
    SEEN = 38  # a browser has reached the end of its queue
    ANSWER = 39  # JSON: the reply to an ASK; first: its number


class Flag(IntFlag):
    NONE = 0
    SINGLE = 1  # the payload is one message, without a record batch
    PERSISTENT = 2
    CONFIRM = 4  # the broker confirms the rows when they are safe
    REDELIVERED = 8
    COLUMNS = 16  # the payload has headers or properties beside the bodies
    COALESCED = 32  # the application sent the rows one by one, so the broker distributes them to consumers one by one
    REJECTED = 64  # the application cannot process the messages at all


# The form of a payload is among the flags of its frame.
FORM: Final = int(Flag.SINGLE | Flag.COLUMNS | Flag.COALESCED)


class Frame(NamedTuple):
    kind: int
    flags: int
    session: int
    link: int
    first: int
    amount: int
    payload: Buffer

    def json(self) -> JsonObject:
        try:
            value = json.loads(bytes(self.payload))
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"frame {self.kind}: not JSON") from error
        if not isinstance(value, dict):
            raise ProtocolError(f"frame {self.kind}: not a JSON object")
        return value


class ProtocolError(MqlabError):
    """The peer uses another protocol, or breaks the rules of this one."""


def header(
    kind: int, *, flags: int = 0, session: int = 0, link: int = 0, first: int = 0, amount: int = 0, length: int = 0
) -> bytes:
    return HEADER.pack(length, kind, flags, session, link, first, amount)


def frame(
    kind: int, value: JsonObject | None = None, *, session: int = 0, link: int = 0, first: int = 0, amount: int = 0
) -> bytes:
    """A complete control frame; `value` becomes its JSON payload."""
    payload = b"" if value is None else json.dumps(value).encode()
    return HEADER.pack(len(payload), kind, 0, session, link, first, amount) + payload


_KINDS: Final = frozenset(int(kind) for kind in Kind)
# Small frames share a chunk; a frame larger than a chunk gets a buffer of its size.
_CHUNK: Final = 64 * 1024
# After a large frame only so much is read: enough for the header of the next one, and little to copy.
_PEEK: Final = 4 * 1024


class FrameDecoder:
    """Bytes in, frames out. Write bytes to `get_buffer()`, then `buffer_updated(n)` returns the complete frames.

    A payload is a view of the buffer, which is not used again while a view exists. `get_buffer()` is never empty.
    After a ProtocolError every further call of `buffer_updated` raises one, so that no read loop can go on.
    """

    def __init__(self, limit: int, large: frozenset[int] = _KINDS) -> None:
        """`large`: kinds of frames that may be longer than a chunk of 64 KiB."""
        self.limit = limit
        self._large = large
        self._chunk = receive_buffer(_CHUNK)
        # Offsets in the chunk: frames are decoded up to `begin`, bytes received up to `end`, reads may go up to `stop`.
        self._begin = self._end = 0
        self._stop = _CHUNK
        # The error of this decoder, once it has failed.
        self._failure = ""

    def get_buffer(self) -> memoryview:
        return self._chunk[self._end : self._stop]

    @property
    def unfinished(self) -> int:
        """The bytes of an incomplete frame."""
        return self._end - self._begin

    def feed(self, data: Buffer) -> list[Frame]:
        """Decode bytes that are in another buffer. Raises ProtocolError."""
        frames: list[Frame] = []
        view, at = memoryview(data), 0
        while at < len(view):
            free = self.get_buffer()
            size = min(len(free), len(view) - at)
            assert size > 0, "a decoder always has free space"
            free[:size] = view[at : at + size]
            at += size
            frames += self.buffer_updated(size)
        return frames

    def buffer_updated(self, size: int) -> list[Frame]:
        """Raises ProtocolError."""
        if self._failure:
            raise ProtocolError(self._failure)
        frames: list[Frame] = []
        chunk, begin = self._chunk, self._begin
        self._end = end = self._end + size
        body = begin + HEADER_SIZE
        while body <= end:
            length, kind, flags, session, link, first, amount = _unpack(chunk, begin)
            if length > self.limit:
                raise self._failed(f"a frame of {length} bytes; the limit is {self.limit}")
            if kind not in _KINDS:
                raise self._failed(f"frame kind {kind} is not known")
            after = body + length
            if after > end:
                self._begin = begin
                if length > _CHUNK and kind not in self._large:
                    raise self._failed(f"a frame of kind {kind} with {length} bytes; the limit is {_CHUNK}")
                self._make_space(HEADER_SIZE + length)
                return frames
            frames.append(Frame(kind, flags, session, link, first, amount, chunk[body:after] if length else b""))
            begin, body = after, after + HEADER_SIZE
        self._begin = begin
        # Usually all frames were complete, and there is free space behind them.
        if end == self._stop or (begin == end and (self._stop != _CHUNK or body > _CHUNK)):
            self._make_space(HEADER_SIZE)
        return frames

    def close(self) -> None:
        """Release the buffer. From now on `buffer_updated` raises ProtocolError."""
        self._failed("the connection has ended")

    def _failed(self, message: str) -> ProtocolError:
        """Discard all bytes that follow, so that there is always free space for them, if only a little."""
        self._chunk = memoryview(bytearray(HEADER_SIZE))
        self._begin, self._end, self._stop = 0, 0, HEADER_SIZE
        self._failure = message
        return ProtocolError(message)

    def _make_space(self, needed: int) -> None:
        """Move the incomplete frame to a new chunk unless the rest of it, `needed` bytes in all, fits this one."""
        rest = self._chunk[self._begin : self._end]
        large = needed > _CHUNK
        if self._begin + needed <= len(self._chunk) and (large or len(self._chunk) == _CHUNK):
            self._stop = self._begin + needed if large else _CHUNK
            return
        peek = not large and len(self._chunk) > _CHUNK
        self._chunk = receive_buffer(needed if large else _CHUNK)
        self._chunk[: len(rest)] = rest
        self._begin, self._end = 0, len(rest)
        self._stop = needed if large else max(_PEEK, len(rest) + HEADER_SIZE) if peek else _CHUNK
