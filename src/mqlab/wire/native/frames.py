"""The native protocol: frames with a fixed header of 24 bytes, little-endian.

length u32   of what follows the header        link   u32   which producer or consumer of the connection
kind   u8    see Kind                          first  u64   a sequence number or delivery id
flags  u8    see Flag                          amount u32   rows, or credit
session u16  which session of the connection
"""

import json
import struct
from collections.abc import Callable
from enum import IntEnum, IntFlag
from functools import partial
from typing import Any, Final, NamedTuple

from mqlab.errors import MqlabError
from mqlab.wire.native.bodies import Buffer
from mqlab.wire.receive_buffers import receive_buffer

VERSION: Final = 1
HEADER: Final = struct.Struct("<IBBHIQI")
HEADER_SIZE: Final = HEADER.size
_unpack: Final = HEADER.unpack_from


class Kind(IntEnum):
    # both ways
    HELLO = 1  # first frame of either side; JSON: version, and who the other is
    ERROR = 2  # JSON: code, message; about the frame of that session, link, first and amount, or (all 0) the connection
    CLOSE = 3  # of a link or (link 0) a session; of a consumer, first: the last delivery id its application has seen
    CLOSED = 4  # all before the CLOSE is done
    # client to broker
    OPEN_SESSION = 10  # JSON: transacted
    OPEN_PRODUCER = 11  # JSON: destination
    OPEN_CONSUMER = 12  # JSON: destination, and how to receive; amount: messages the consumer has room for
    SEND = 13  # first: sequence number of the first row; amount: rows
    ACKNOWLEDGE = 14  # first: the last delivery id that is done; amount: room for that many more
    ACKNOWLEDGE_ROWS = 15  # first: a delivery id; amount: so many from it on are done; session: in its transaction
    RECEIVE = (
        16  # one message by the id that is the payload: flag NONE a correlation id, SINGLE a message id (16 bytes);
    )
    # first: as of ACKNOWLEDGE
    CANCEL = 17  # of a consumer: it has no room, and waits for no message; answered with CANCELLED
    COMMIT = 18
    ROLLBACK = 19  # of a session, or (link) of a consumer: all comes again; first: the last delivery id seen;
    # with an amount: just so many deliveries from first on, as if they had never left or (REDELIVERED) as tried in
    # vain; this is not answered
    ASK = 20  # JSON: anything else a client wants to know or have done; first: the number of the question
    REQUEST = 21  # SEND of a single message, and RECEIVE of the one with the same correlation id by the consumer whose
    # link is the amount: all it was given is done
    # broker to client
    OPENED = 30  # a session, producer or consumer is there
    DELIVER = 31  # first: delivery id of the first row; amount: rows; session: how often they were delivered before
    CONFIRM = 32  # first: all rows up to this sequence number are safe
    CREDIT = 33  # amount: the producer may send so many bytes more
    COMMITTED = 34
    ROLLED_BACK = 35
    CANCELLED = 36
    ORIGIN = 37  # where what is delivered next to this consumer was sent to: the payload, a name
    SEEN = 38  # a browser has seen all there was
    ANSWER = 39  # JSON; first: the number of the question


class Flag(IntFlag):
    NONE = 0
    SINGLE = 1  # the payload is one message, without a record batch
    PERSISTENT = 2
    CONFIRM = 4  # the producer wants to be told when its rows are safe
    REDELIVERED = 8
    COLUMNS = 16  # the payload has headers or properties beside the bodies
    COALESCED = 32  # the rows were sent one by one and are dealt to consumers one by one


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

    def json(self) -> dict[str, Any]:
        try:
            value = json.loads(bytes(self.payload))
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"frame {self.kind}: not JSON") from error
        if not isinstance(value, dict):
            raise ProtocolError(f"frame {self.kind}: not a JSON object")
        return value


# The same in a third of the time, for whoever makes one for each message.
_frame: Callable[[tuple[int, int, int, int, int, int, Buffer]], Frame] = partial(tuple.__new__, Frame)


class ProtocolError(MqlabError):
    """The peer does not speak this protocol, or breaks its rules."""


def header(
    kind: int, *, flags: int = 0, session: int = 0, link: int = 0, first: int = 0, amount: int = 0, length: int = 0
) -> bytes:
    return HEADER.pack(length, kind, flags, session, link, first, amount)


def frame(
    kind: int, value: dict[str, Any] | None = None, *, session: int = 0, link: int = 0, first: int = 0, amount: int = 0
) -> bytes:
    """A whole control frame; `value` becomes its JSON payload."""
    payload = b"" if value is None else json.dumps(value).encode()
    return HEADER.pack(len(payload), kind, 0, session, link, first, amount) + payload


_KINDS: Final = frozenset(int(kind) for kind in Kind)
# Small frames are read many at a time; a frame of more than a chunk gets memory of exactly its size.
_CHUNK: Final = 64 * 1024
# After a large frame only so much is read ahead: enough to learn the size of the next, little to be moved.
_PEEK: Final = 4 * 1024


class FrameDecoder:
    """Bytes in, frames out. `room()` is where the next bytes go; `received(n)` takes n of them and splits.

    A frame is read where it lies: its payload is a view of memory that is not used again while anybody looks at it.
    `room()` is never empty. After a ProtocolError every further call of `received` raises one: no loop over input
    can go on with a receiver that has failed.
    """

    def __init__(self, limit: int, large: frozenset[int] = _KINDS) -> None:
        """`large`: kinds of frames that may be longer than a chunk of 64 KiB."""
        self.limit = limit
        self._large = large
        self._chunk = receive_buffer(_CHUNK)
        # Of the chunk: up to `begin` frames were given out, up to `end` bytes received, up to `stop` they may come.
        self._begin = self._end = 0
        self._stop = _CHUNK
        # Why nothing can be split any more.
        self._failure = ""

    def get_buffer(self) -> memoryview:
        return self._chunk[self._end : self._stop]

    @property
    def unfinished(self) -> int:
        """Bytes of a frame that has not arrived whole."""
        return self._end - self._begin

    def feed(self, data: Buffer) -> list[Frame]:
        """For bytes that come from elsewhere: any split of them gives the same frames. Raises ProtocolError."""
        frames: list[Frame] = []
        view, at = memoryview(data), 0
        while at < len(view):
            room = self.get_buffer()
            size = min(len(room), len(view) - at)
            assert size > 0, "a receiver always has room"
            room[:size] = view[at : at + size]
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
                self._make_room(HEADER_SIZE + length)
                return frames
            frames.append(_frame((kind, flags, session, link, first, amount, chunk[body:after] if length else b"")))
            begin, body = after, after + HEADER_SIZE
        self._begin = begin
        # Mostly all was complete, and there is room behind it.
        if end == self._stop or (begin == end and (self._stop != _CHUNK or body > _CHUNK)):
            self._make_room(HEADER_SIZE)
        return frames

    def _failed(self, message: str) -> ProtocolError:
        """The bytes that follow belong to no frame. They are discarded, so that there is always room for them."""
        self._chunk = receive_buffer(_CHUNK)
        self._begin = self._end = 0
        self._stop = _CHUNK
        self._failure = message
        return ProtocolError(message)

    def _make_room(self, needed: int) -> None:
        """For the unfinished frame, of so many bytes as far as is known, if it cannot be finished where it is."""
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
