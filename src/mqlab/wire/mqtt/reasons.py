"""Reason codes of MQTT 5, and the return codes of CONNACK in MQTT 3.1.1 that stand for them."""

from enum import IntEnum
from typing import Final

from mqlab.wire.mqtt.packets import MqttError


class Reason(IntEnum):
    SUCCESS = 0x00
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_ERROR = 0x83
    UNSUPPORTED_VERSION = 0x84
    CLIENT_ID_NOT_VALID = 0x85
    BAD_USER_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_ID_IN_USE = 0x91
    PACKET_ID_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    QUOTA_EXCEEDED = 0x97
    PAYLOAD_FORMAT_INVALID = 0x99
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E


_RETURN_CODES: Final = {
    Reason.SUCCESS: 0, Reason.UNSUPPORTED_VERSION: 1, Reason.CLIENT_ID_NOT_VALID: 2, Reason.SERVER_UNAVAILABLE: 3,
    Reason.QUOTA_EXCEEDED: 3, Reason.BAD_USER_OR_PASSWORD: 4, Reason.NOT_AUTHORIZED: 5,
}  # fmt: skip


def return_code(reason: Reason) -> int:
    """The return code of CONNACK in MQTT 3.1.1."""
    return _RETURN_CODES.get(reason, 5)


class MqttViolationError(MqttError):
    """The client breaks the protocol or a limit; `reason` is the code that it gets."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
