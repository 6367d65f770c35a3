"""The stages of an AMQP connection, and what happens to each header and performative in each stage."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from mqlab.wire.amqp10.frames import AMQP_HEADER, SASL_HEADER
from mqlab.wire.amqp10.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslInit,
    Transfer,
)


class AmqpStage(Enum):
    """Each stage is named by the input that the client must send next."""

    HEADER = auto()
    SASL_INIT = auto()
    # Nothing: the broker checks the password.
    LOGIN = auto()
    HEADER_AFTER_SASL = auto()
    OPEN = auto()
    OPENED = auto()
    # Nothing: it has sent `close`.
    CLOSED = auto()


# By stage, and by protocol header or performative: the method of `AmqpServerConnection`.
TABLE: Final[Mapping[AmqpStage, Mapping[bytes | type, str]]] = {
    AmqpStage.HEADER: {SASL_HEADER: "_begin_sasl", AMQP_HEADER: "_begin_without_sasl"},
    AmqpStage.SASL_INIT: {SaslInit: "_sasl_init"},
    AmqpStage.HEADER_AFTER_SASL: {AMQP_HEADER: "_begin_after_sasl"},
    AmqpStage.OPEN: {Open: "_open"},
    AmqpStage.OPENED: {
        # These come after the outcomes of all deliveries before.
        Begin: "_add_after_outcomes",
        Attach: "_add_after_outcomes",
        Close: "_add_after_outcomes",
        Transfer: "_in_session",
        Flow: "_in_session",
        Disposition: "_in_session",
        Detach: "_in_session",
        End: "_in_session",
    },
}
