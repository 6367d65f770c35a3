"""The beginning of an AMQP connection: protocol headers, SASL and `open`."""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from mqlab import __version__
from mqlab.broker import limits
from mqlab.broker.server.amqp.errors import DECODE_ERROR, LIMIT_EXCEEDED, AmqpConditionError
from mqlab.wire.amqp10.encoder import encode_symbols
from mqlab.wire.amqp10.frames import MIN_MAX_FRAME_SIZE
from mqlab.wire.amqp10.performatives import Open, SaslInit, symbols
from mqlab.wire.amqp10.types import Encoded, Symbol

PLAIN: Final = "PLAIN"
ANONYMOUS: Final = "ANONYMOUS"
EXTERNAL: Final = "EXTERNAL"
_SOLE: Final = "sole-connection-for-container"
# The extensions that the broker supports.
_OFFERED: Final = ("ANONYMOUS-RELAY", "SHARED-SUBS", "DELAYED_DELIVERY", _SOLE)


# The fields of a HELLO of the native protocol: user and password; that the client's certificate names the user; none
# for anybody.
Login = Mapping[str, str | bool]
ANYBODY: Final[Login] = {}


def login_of(init: SaslInit, offered: Collection[str]) -> Login | None:
    """The login that a client asks for; None if the mechanism is not offered, or the response is malformed."""
    if init.mechanism not in offered:
        return None
    response = init.initial_response or b""
    try:
        if init.mechanism == EXTERNAL:
            # The response is the user that the client wants to be; empty: the one of the certificate.
            return {"external": True, **({"user": response.decode()} if response else {})}
        if init.mechanism != PLAIN:
            return ANYBODY
        _, user, password = response.split(b"\0")
        return {"user": user.decode(), "password": password.decode()}
    except ValueError:
        # Not two separators, or no text.
        return None


class ClientOpen(NamedTuple):
    """The fields of the client's `open` that the broker uses."""

    container: str
    # The client wants no other connection with its container id.
    is_sole: bool
    frame_limit: int
    # Seconds after which the client counts a silent broker as gone; 0: never.
    idle_s: float


def client_open(performative: Open) -> ClientOpen:
    """Raises AmqpConditionError."""
    frame_limit = 0xFFFFFFFF if performative.max_frame_size is None else performative.max_frame_size
    if frame_limit < MIN_MAX_FRAME_SIZE:
        raise AmqpConditionError(DECODE_ERROR, f"max-frame-size must be {MIN_MAX_FRAME_SIZE} or more")
    idle_s = (performative.idle_time_out or 0) / 1000
    if 0 < idle_s < limits.AMQP_IDLE_LEAST:
        raise AmqpConditionError(LIMIT_EXCEEDED, f"idle-time-out must be {limits.AMQP_IDLE_LEAST * 1000:g} or more")
    return ClientOpen(
        performative.container_id, _SOLE in symbols(performative.desired_capabilities), frame_limit, idle_s
    )  # fmt: skip


def broker_open(name: str, properties: dict[Symbol, str | bool] | None = None) -> Open:
    """The broker's `open`."""
    return Open(
        name,
        None,
        limits.AMQP_FRAME,
        limits.AMQP_SESSIONS - 1,
        int(limits.AMQP_IDLE * 1000),
        offered_capabilities=_offered(),
        properties={Symbol("product"): "mqlab", Symbol("version"): __version__, **(properties or {})},
    )


def _offered() -> Encoded:
    return encode_symbols(_OFFERED)
