"""Reads the source and the target of a link: the destination, and the options of the consumer."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mqlab.broker.core.model.destination_names import QUEUE, TOPIC
from mqlab.broker.server.amqp.errors import INVALID_FIELD, NOT_FOUND, NOT_IMPLEMENTED, LinkError
from mqlab.broker.server.amqp.messages.addresses import TEMPORARY_TOPIC, native_name
from mqlab.wire.amqp10.encoder import encode_symbols
from mqlab.wire.amqp10.performatives import (
    Accepted,
    Attach,
    Modified,
    Rejected,
    Released,
    Source,
    Target,
    composite,
    parse,
    symbols,
)
from mqlab.wire.amqp10.types import AmqpDecodeError, Described, Encoded, Symbol

# Filters by their symbol and by their code.
_SELECTOR: Final = ("apache.org:selector-filter:string", 0x0000468C00000004)
_NO_LOCAL: Final = ("apache.org:no-local-filter:list", 0x0000468C00000003)
_SHARED, _GLOBAL = "shared", "global"
_COPY: Final = "copy"
# Characters after this one in the name of a link number the consumers of one subscription, as in Qpid JMS.
_NUMBERED: Final = "|"
_OUTCOMES: Final = tuple(
    Symbol(f"amqp:{kind.__name__.lower()}:list") for kind in (Accepted, Rejected, Released, Modified)
)  # fmt: skip
_KNOWN: Final = (QUEUE, TOPIC, _SHARED, _GLOBAL, "temporary-queue", TEMPORARY_TOPIC)
_MANAGEMENT: Final = "$"


class ConsumerTerms(NamedTuple):
    """Everything that a source asks for."""

    # The broker's name of the destination; "" for a dynamic one, which the broker names.
    name: str
    # The options of OPEN_CONSUMER in the native protocol.
    options: dict[str, object]
    # The subscription belongs to no client id.
    is_global: bool
    # Unsettled messages count as delivered when the link ends.
    fails_by_default: bool


def consumer_terms(attach: Attach, source: Source) -> ConsumerTerms:
    """Raises LinkError."""
    capabilities = symbols(source.capabilities)
    if source.dynamic:
        return ConsumerTerms("", {}, is_global=False, fails_by_default=_fails(source))
    name = _name(source.address, capabilities)
    options: dict[str, object] = {}
    filters = supported_filters(source, name)
    for value in filters.values():
        if value.descriptor in _SELECTOR:
            options["selector"] = str(value.value)
        else:
            options["no_local"] = True
    if name.startswith(QUEUE):
        if source.distribution_mode == _COPY:
            options["browse"] = True
        return ConsumerTerms(name, options, is_global=False, fails_by_default=_fails(source))
    subscription = subscription_name(attach.name)
    if source.durable:
        options["durable"] = subscription
    if _SHARED in capabilities:
        options["shared"] = subscription
    return ConsumerTerms(name, options, is_global=_GLOBAL in capabilities, fails_by_default=_fails(source))


def producer_name(target: Target) -> str:
    """The broker's name of the destination. Raises LinkError."""
    return _name(target.address, symbols(target.capabilities))


def is_temporary_topic(capabilities: object) -> bool:
    return TEMPORARY_TOPIC in symbols(capabilities)


def subscription_name(link_name: str) -> str:
    return link_name.partition(_NUMBERED)[0]


def is_global_link(link_name: str) -> bool:
    """Whether Qpid JMS names a subscription without a client id, when it asks for it by the name of the link."""
    return link_name.partition(_NUMBERED)[2].startswith(_GLOBAL)


def supported_filters(source: Source, name: str) -> dict[Any, Described]:
    """Those of the filters that the broker applies. The client learns from the answer which ones these are."""
    filters = source.filter if isinstance(source.filter, Mapping) else {}
    applied = {}
    for key, value in filters.items():
        if not isinstance(key, Symbol) or not isinstance(value, Described):
            continue
        is_selector = value.descriptor in _SELECTOR and isinstance(value.value, str)
        is_no_local = value.descriptor in _NO_LOCAL and not name.startswith(QUEUE)
        if is_selector or is_no_local:
            applied[key] = value
    return applied


def answered_source(source: Source, name: str, address: str) -> Source:
    """The source as the broker applies it."""
    filters = supported_filters(source, name)
    return source._replace(
        address=address,
        dynamic_node_properties=None,
        filter=dict(filters) or None,
        default_outcome=_encoded_outcome(source.default_outcome),
        outcomes=outcomes(),
        capabilities=answered_capabilities(source.capabilities),
    )


def answered_target(target: Target, address: str | None) -> Target:
    return target._replace(
        address=address, dynamic_node_properties=None, capabilities=answered_capabilities(target.capabilities)
    )


def answered_capabilities(value: object) -> Any:
    known = [symbol for symbol in symbols(value) if symbol in _KNOWN]
    return encode_symbols(known) if known else None


def outcomes() -> Encoded:
    """The outcomes that the broker supports."""
    return encode_symbols(_OUTCOMES)


def subscription_source(topic: str, *, shared: bool, is_global: bool) -> Source:
    """The source of a durable subscription that exists."""
    capabilities = [TOPIC, *([_SHARED] if shared else []), *([_GLOBAL] if is_global else [])]
    return Source(topic, 2, Symbol("never"), outcomes=outcomes(), capabilities=encode_symbols(capabilities))


def _name(address: str | None, capabilities: list[str]) -> str:
    if not address:
        raise LinkError(INVALID_FIELD, "the terminus has no address")
    if address.startswith(_MANAGEMENT):
        raise LinkError(NOT_FOUND, f"there is no node {address[:80]!r}")
    return native_name(address, capabilities)


def _outcome(value: object) -> Any:
    if value is None:
        return None
    try:
        return parse(value)
    except AmqpDecodeError as error:
        raise LinkError(NOT_IMPLEMENTED, f"the default outcome is unknown: {error}") from None


def _encoded_outcome(value: object) -> Any:
    outcome = _outcome(value)
    return None if outcome is None else composite(outcome)


def _fails(source: Source) -> bool:
    outcome = _outcome(source.default_outcome)
    return isinstance(outcome, Modified) and outcome.delivery_failed is True
