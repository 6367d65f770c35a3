"""The bytes of an AMQP broker, encoded frame by frame."""

from mqlab.wire.amqp.content import CONTENT
from mqlab.wire.amqp.decoder import AmqpDecoder, DeliveryBatch
from mqlab.wire.amqp.methods import BODY, HEADER, frame, method

FRAME_MAX = 4096


def delivery(
    channel: int, tag: int, body: bytes, *, redelivered: bool = False, properties: bytes = b"\0\0", key: str = "key"
) -> list[bytes]:
    """The frames of one message; those of other channels may come between them."""
    head = CONTENT.pack(60, 0, len(body), 0)[:-2] + properties
    most = FRAME_MAX - 8
    return [
        method(channel, "basic.deliver", "consumer", tag, redelivered, "exchange", key),
        frame(HEADER, channel, head),
        *(frame(BODY, channel, body[begin : begin + most]) for begin in range(0, len(body), most)),
    ]


def splitter(max_body: int = 1 << 20) -> AmqpDecoder:
    made = AmqpDecoder(max_body)
    made.frame_max = FRAME_MAX
    return made


def one_by_one(found: list[object]) -> list[tuple[int, int, bool, bytes, bytes]]:
    """Messages without regard to how many came together: channel, tag, redelivered, body, properties."""
    rows = []
    for piece in found:
        assert isinstance(piece, DeliveryBatch)
        size = len(piece.data) // piece.rows
        assert size * piece.rows == len(piece.data)
        for row in range(piece.rows):
            tag = piece.last_tag - piece.rows + 1 + row
            body = piece.data[row * size : (row + 1) * size]
            rows.append((piece.channel, tag, piece.redelivered, body, piece.properties))
    return rows
