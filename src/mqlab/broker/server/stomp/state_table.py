"""The stages of a STOMP connection, and what happens to each frame in each stage."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final


class StompStage(Enum):
    CONNECT = auto()
    # The broker checks the password.
    LOGIN = auto()
    OPEN = auto()
    # The client has sent DISCONNECT.
    ENDING = auto()


# By stage and command: the method of `StompDecoder`. SEND frames of the stage OPEN are also collected in batches.
TABLE: Final[Mapping[StompStage, Mapping[str, str]]] = {
    StompStage.CONNECT: {"CONNECT": "_connect", "STOMP": "_connect"},
    StompStage.OPEN: {
        "SEND": "_begin_batch",
        "ACK": "_settle",
        "NACK": "_settle",
        "SUBSCRIBE": "_subscribe",
        "UNSUBSCRIBE": "_unsubscribe",
        "BEGIN": "_begin",
        "COMMIT": "_commit",
        "ABORT": "_abort",
        "DISCONNECT": "_disconnect",
    },
}
