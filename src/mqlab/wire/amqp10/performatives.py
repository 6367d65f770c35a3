"""The performatives of AMQP 1.0 and the composite values in them: termini, delivery states, errors."""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from types import UnionType
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_type_hints

from mqlab.wire.amqp10.decoder import decode, decode_all
from mqlab.wire.amqp10.encoder import NULL, encode, join_described, writer_of
from mqlab.wire.amqp10.types import AmqpDecodeError, AmqpValue, Described, Encoded, Symbol, UByte, UInt, ULong, UShort
from mqlab.wire.amqp10.usual_frames import read_usual_disposition, read_usual_transfer

# Any: properties, capabilities and filters hold whatever a peer writes.
Fields = Any
_MOST_UINT: Final = 0xFFFFFFFF


class Open(NamedTuple):
    container_id: str
    hostname: str | None = None
    max_frame_size: int | None = None
    channel_max: int | None = None
    idle_time_out: int | None = None
    outgoing_locales: Fields = None
    incoming_locales: Fields = None
    offered_capabilities: Fields = None
    desired_capabilities: Fields = None
    properties: Fields = None


class Begin(NamedTuple):
    remote_channel: int | None
    next_outgoing_id: int
    incoming_window: int
    outgoing_window: int
    handle_max: int | None = None
    offered_capabilities: Fields = None
    desired_capabilities: Fields = None
    properties: Fields = None


class Attach(NamedTuple):
    name: str
    handle: int
    # False: the client sends; True: the client receives.
    role: bool
    snd_settle_mode: int | None = None
    rcv_settle_mode: int | None = None
    source: Fields = None
    target: Fields = None
    unsettled: Fields = None
    incomplete_unsettled: bool | None = None
    initial_delivery_count: int | None = None
    max_message_size: int | None = None
    offered_capabilities: Fields = None
    desired_capabilities: Fields = None
    properties: Fields = None


class Flow(NamedTuple):
    next_incoming_id: int | None
    incoming_window: int
    next_outgoing_id: int
    outgoing_window: int
    handle: int | None = None
    delivery_count: int | None = None
    link_credit: int | None = None
    available: int | None = None
    drain: bool | None = None
    echo: bool | None = None
    properties: Fields = None


class Transfer(NamedTuple):
    handle: int
    delivery_id: int | None = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    settled: bool | None = None
    more: bool | None = None
    rcv_settle_mode: int | None = None
    state: Fields = None
    resume: bool | None = None
    aborted: bool | None = None
    batchable: bool | None = None


class Disposition(NamedTuple):
    role: bool
    first: int
    last: int | None = None
    settled: bool | None = None
    state: Fields = None
    batchable: bool | None = None


class Detach(NamedTuple):
    handle: int
    closed: bool | None = None
    error: Fields = None


class End(NamedTuple):
    error: Fields = None


class Close(NamedTuple):
    error: Fields = None


class SaslMechanisms(NamedTuple):
    mechanisms: Fields


class SaslInit(NamedTuple):
    mechanism: Symbol
    initial_response: bytes | None = None
    hostname: str | None = None


class SaslResponse(NamedTuple):
    response: bytes


class SaslOutcome(NamedTuple):
    code: int
    additional_data: bytes | None = None


class Source(NamedTuple):
    address: str | None = None
    durable: int | None = None
    expiry_policy: Symbol | None = None
    timeout: int | None = None
    dynamic: bool | None = None
    dynamic_node_properties: Fields = None
    distribution_mode: Symbol | None = None
    filter: Fields = None
    default_outcome: Fields = None
    outcomes: Fields = None
    capabilities: Fields = None


class Target(NamedTuple):
    address: str | None = None
    durable: int | None = None
    expiry_policy: Symbol | None = None
    timeout: int | None = None
    dynamic: bool | None = None
    dynamic_node_properties: Fields = None
    capabilities: Fields = None


class Coordinator(NamedTuple):
    capabilities: Fields = None


class DeclareTransaction(NamedTuple):
    global_id: Fields = None


class Discharge(NamedTuple):
    txn_id: bytes
    fail: bool | None = None


class Declared(NamedTuple):
    txn_id: bytes


class TransactionalState(NamedTuple):
    txn_id: bytes
    outcome: Fields = None


class Received(NamedTuple):
    section_number: int
    section_offset: int


class Accepted(NamedTuple):
    pass


class Rejected(NamedTuple):
    error: Fields = None


class Released(NamedTuple):
    pass


class Modified(NamedTuple):
    delivery_failed: bool | None = None
    undeliverable_here: bool | None = None
    message_annotations: Fields = None


class AmqpErrorFields(NamedTuple):
    condition: Symbol
    description: str | None = None
    info: Fields = None


CODES: Final[Mapping[type, int]] = {
    Open: 0x10, Begin: 0x11, Attach: 0x12, Flow: 0x13, Transfer: 0x14, Disposition: 0x15, Detach: 0x16, End: 0x17,
    Close: 0x18, AmqpErrorFields: 0x1D, Received: 0x23, Accepted: 0x24, Rejected: 0x25, Released: 0x26, Modified: 0x27,
    Source: 0x28, Target: 0x29, Coordinator: 0x30, DeclareTransaction: 0x31, Discharge: 0x32, Declared: 0x33,
    TransactionalState: 0x34, SaslMechanisms: 0x40, SaslInit: 0x41, SaslResponse: 0x43, SaslOutcome: 0x44,
}  # fmt: skip
_CLASSES: Final = {code: kind for kind, code in CODES.items()}
# The symbols that may stand for the codes.
_NAMES: Final = {
    "amqp:open:list": 0x10, "amqp:begin:list": 0x11, "amqp:attach:list": 0x12, "amqp:flow:list": 0x13,
    "amqp:transfer:list": 0x14, "amqp:disposition:list": 0x15, "amqp:detach:list": 0x16, "amqp:end:list": 0x17,
    "amqp:close:list": 0x18, "amqp:error:list": 0x1D, "amqp:received:list": 0x23, "amqp:accepted:list": 0x24,
    "amqp:rejected:list": 0x25, "amqp:released:list": 0x26, "amqp:modified:list": 0x27, "amqp:source:list": 0x28,
    "amqp:target:list": 0x29, "amqp:coordinator:list": 0x30, "amqp:declare:list": 0x31, "amqp:discharge:list": 0x32,
    "amqp:declared:list": 0x33, "amqp:transactional-state:list": 0x34, "amqp:sasl-mechanisms:list": 0x40,
    "amqp:sasl-init:list": 0x41, "amqp:sasl-response:list": 0x43, "amqp:sasl-outcome:list": 0x44,
}  # fmt: skip
# The whole numbers that are not a uint.
_NUMBERS: Final[Mapping[tuple[type, str], type]] = {
    (Open, "channel_max"): UShort, (Begin, "remote_channel"): UShort, (Attach, "snd_settle_mode"): UByte,
    (Attach, "rcv_settle_mode"): UByte, (Attach, "max_message_size"): ULong, (Transfer, "rcv_settle_mode"): UByte,
    (SaslOutcome, "code"): UByte, (Received, "section_offset"): ULong,
}  # fmt: skip
_MOST: Final = {UByte: 0xFF, UShort: 0xFFFF, UInt: _MOST_UINT, ULong: 2**64 - 1}
_T = TypeVar("_T", bound=tuple[Any, ...])


class _Field(NamedTuple):
    name: str
    # The exact types that a value may have; empty: any.
    accepted: frozenset[type]
    # The highest number, if the value is a number; else 0.
    most: int
    write: Callable[[AmqpValue], bytes]


@cache
def _fields_of(kind: type) -> tuple[_Field, ...]:
    hints, fields = get_type_hints(kind), []
    for name in kind._fields:  # type: ignore[attr-defined] # a NamedTuple
        hint = hints[name]
        accepted = frozenset(get_args(hint) if isinstance(hint, UnionType) else () if hint is Any else (hint,))
        number = _NUMBERS.get((kind, name), UInt) if int in accepted else None
        fields.append(_Field(name, accepted, _MOST[number] if number else 0, writer_of(number) if number else encode))
    return tuple(fields)


def code_of(descriptor: object) -> int:
    """The code of a descriptor; -1 if it is unknown."""
    if type(descriptor) is int:
        return descriptor
    return _NAMES.get(descriptor, -1) if isinstance(descriptor, Symbol) else -1


def parse(value: object) -> Any:
    """The composite value of a described list. Raises AmqpDecodeError."""
    if not isinstance(value, Described):
        raise AmqpDecodeError("a composite value was expected")
    kind = _CLASSES.get(code_of(value.descriptor))
    if kind is None or not isinstance(value.value, list):
        raise AmqpDecodeError(f"{str(value.descriptor)[:60]!r} is not a composite value of AMQP 1.0")
    return _build(kind, value.value)


def parse_as(kind: type[_T], value: object) -> _T | None:
    """The composite value if it is of this kind; None for null. Raises AmqpDecodeError for another kind."""
    if value is None:
        return None
    composite = parse(value)
    if not isinstance(composite, kind):
        raise AmqpDecodeError(f"{type(composite).__name__} where {kind.__name__} was expected")
    return composite


def read_performative(body: bytes) -> tuple[Any, bytes]:
    """The performative of a frame, and the payload after it. Raises AmqpDecodeError."""
    usual = read_usual_transfer(body)
    if usual is not None:
        handle, delivery, tag, encoded, count, at = usual
        further = _further_fields(encoded, count)
        if further is not None:
            return tuple.__new__(Transfer, (handle, delivery, tag, *further)), body[at:]
    settlement = read_usual_disposition(body)
    if settlement is not None:
        role, first, last, encoded, count = settlement
        further = _further_settlement(encoded, count)
        if further is not None:
            return tuple.__new__(Disposition, (role, first, last, *further)), b""
    value, at = decode(body)
    return parse(value), body[at:]


@lru_cache(maxsize=64)
def _further_fields(encoded: bytes, count: int) -> tuple[Any, ...] | None:
    """The fields of a transfer after its delivery tag: a client writes few different ones.

    None: the bytes are not so many fields, or have a delivery state.
    """
    try:
        values = decode_all(encoded)
        transfer: Transfer = _build(Transfer, [0, 0, b"", *values])
    except AmqpDecodeError:
        return None
    return transfer[3:] if len(values) == count and transfer.state is None else None


@lru_cache(maxsize=64)
def _further_settlement(encoded: bytes, count: int) -> tuple[Any, ...] | None:
    """The fields of a disposition after `last`.

    None: the bytes are not so many fields, or have a delivery state with fields of its own.
    """
    try:
        values = decode_all(encoded)
        disposition: Disposition = _build(Disposition, [True, 0, None, *values])
    except AmqpDecodeError:
        return None
    state = disposition.state
    is_plain = state is None or (isinstance(state, Described) and state.value == [])
    return disposition[3:] if len(values) == count and is_plain else None


def _build(kind: type, values: list[Any]) -> Any:
    fields = _fields_of(kind)
    if len(values) > len(fields):
        raise AmqpDecodeError(f"{kind.__name__} has at most {len(fields)} fields")
    for (name, accepted, most, _), value in zip(fields, values, strict=False):
        if accepted and type(value) not in accepted:
            raise AmqpDecodeError(f"{kind.__name__}: {name} is missing, or of a wrong type")
        if most and value is not None and not 0 <= value <= most:
            raise AmqpDecodeError(f"{kind.__name__}: {name} is out of range")
    try:
        return kind(*values)
    except TypeError:
        # A field without a default.
        raise AmqpDecodeError(f"{kind.__name__}: {fields[len(values)].name} is missing, or of a wrong type") from None


def encode_performative(value: tuple[Any, ...]) -> bytes:
    kind = type(value)
    fields = [
        NULL if field is None else write(field) for (_, _, _, write), field in zip(_fields_of(kind), value, strict=True)
    ]
    return join_described(CODES[kind], fields)


def composite(value: tuple[Any, ...]) -> Encoded:
    """A composite value as a field of another one."""
    return Encoded(encode_performative(value))


def symbols(value: object) -> list[str]:
    """The values of a field that may have several: null, one symbol or an array of them."""
    if isinstance(value, Symbol):
        return [value]
    return [item for item in value if isinstance(item, Symbol)] if isinstance(value, list) else []
