"""The only table of the rights that commands need, for all protocols. docs/broker.md is generated from it.

`server.access` checks commands by this table, and refuses a command that the table does not have.
"""

from enum import Enum
from typing import Final, NamedTuple

from mqlab.broker.security.rights import Right


class CheckKind(Enum):
    """How a requirement is checked; the value is the sentence in the documentation."""

    PUBLIC = "nothing"
    LOGIN = "a login"
    OWN_LINK = "a session, producer or consumer that the same connection has opened"
    USE = "`{right}` on `{argument}`, and `create` if it does not exist"
    MANAGE = "`{right}` on `{argument}`"
    LIST = "a login; the answer contains only {argument}"
    OWN_SUBSCRIPTION = "a login; names only subscriptions of the same user and client id"
    OWN_TEMPORARY = "the connection that created the temporary queue"
    PREPARED = "`write` on all that the transaction sent to, and `read` on all that it received from"
    CHANNEL = "`{right}` on `queue:transmit.BROKER`"
    EVERYTHING = "`{right}` on `all`"
    TRACE = "`read` or `admin` on `queue:mqlab.trace`; to change a level, `admin`"


class Requirement(NamedTuple):
    kind: CheckKind
    right: Right = "read"
    # The field of the frame or admin request that names the object; for a list, what the list contains.
    argument: str = ""

    @property
    def text(self) -> str:
        return self.kind.value.format(right=self.right, argument=self.argument)


_PUBLIC: Final = (Requirement(CheckKind.PUBLIC),)
_LOGIN: Final = (Requirement(CheckKind.LOGIN),)
_OWN_LINK: Final = (Requirement(CheckKind.OWN_LINK),)
_ADMIN: Final = Requirement(CheckKind.MANAGE, "admin", "name")
_PREPARED: Final = (Requirement(CheckKind.PREPARED, argument="xid"),)
_CHANNEL: Final = (Requirement(CheckKind.CHANNEL, "admin", "to"),)

Table = dict[str, tuple[Requirement, ...]]

# Frames of the native protocol.
FRAMES: Final[Table] = {
    "HELLO": _PUBLIC,
    "OPEN_SESSION": _LOGIN,
    "OPEN_PRODUCER": (Requirement(CheckKind.USE, "write", "destination"),),
    "OPEN_CONSUMER": (Requirement(CheckKind.USE, "read", "destination"),),
    "SEND": _OWN_LINK,
    "REQUEST": _OWN_LINK,
    "ACKNOWLEDGE": _OWN_LINK,
    "ACKNOWLEDGE_ROWS": _OWN_LINK,
    "RECEIVE": _OWN_LINK,
    "CANCEL": _OWN_LINK,
    "COMMIT": _OWN_LINK,
    "ROLLBACK": _OWN_LINK,
    "CLOSE": _OWN_LINK,
    "ASK": _LOGIN,
}

# Admin requests: ASK frames of the native protocol, by their field `ask`.
ADMIN_REQUESTS: Final[Table] = {
    "ping": _LOGIN,
    "status": _LOGIN,
    "temporary": _LOGIN,
    "delete_temporary": (Requirement(CheckKind.OWN_TEMPORARY, argument="name"),),
    "unsubscribe": (Requirement(CheckKind.OWN_SUBSCRIPTION, argument="name"),),
    "prepare": _OWN_LINK,
    "commit": _PREPARED,
    "rollback": _PREPARED,
    "prepared": (Requirement(CheckKind.LIST, argument="transactions that the user may commit"),),
    "list": (Requirement(CheckKind.LIST, argument="what the user may `show`"),),
    "show": (Requirement(CheckKind.MANAGE, "read", "name"),),
    "purge": (_ADMIN,),
    "move": (_ADMIN, Requirement(CheckKind.USE, "write", "to")),
    "delete": (_ADMIN,),
    "trace": (Requirement(CheckKind.TRACE),),
    "api_trace": (Requirement(CheckKind.EVERYTHING, "admin"),),
    "monitoring": (Requirement(CheckKind.EVERYTHING, "admin"),),
    "connections": (Requirement(CheckKind.EVERYTHING, "admin"),),
    "channels": (Requirement(CheckKind.LIST, argument="those with `read` on `queue:transmit.BROKER`"),),
    "add_channel": (Requirement(CheckKind.EVERYTHING, "admin"),),
    "start_channel": _CHANNEL,
    "stop_channel": _CHANNEL,
}

# Commands of STOMP, and the native frames or admin requests that the broker translates each into.
STOMP: Final[dict[str, tuple[str, ...]]] = {
    "CONNECT": ("HELLO", "OPEN_SESSION"),
    "STOMP": ("HELLO", "OPEN_SESSION"),
    "SEND": ("OPEN_PRODUCER", "temporary", "SEND"),
    "SUBSCRIBE": ("OPEN_CONSUMER", "temporary"),
    "UNSUBSCRIBE": ("CLOSE", "unsubscribe"),
    "ACK": ("ACKNOWLEDGE_ROWS", "ACKNOWLEDGE"),
    "NACK": ("ROLLBACK", "ACKNOWLEDGE"),
    "BEGIN": ("OPEN_SESSION",),
    "COMMIT": ("COMMIT",),
    "ABORT": ("ROLLBACK",),
    "DISCONNECT": (),
}

# Packets of MQTT, likewise.
MQTT: Final[dict[str, tuple[str, ...]]] = {
    "CONNECT": ("HELLO", "OPEN_SESSION", "OPEN_PRODUCER"),
    "PUBLISH": ("OPEN_PRODUCER", "SEND"),
    "PUBACK": ("ACKNOWLEDGE_ROWS", "ACKNOWLEDGE"),
    "PUBREC": ("ACKNOWLEDGE_ROWS", "ACKNOWLEDGE"),
    "PUBREL": (),
    "PUBCOMP": (),
    "SUBSCRIBE": ("OPEN_CONSUMER",),
    "UNSUBSCRIBE": ("CLOSE", "unsubscribe"),
    "PINGREQ": (),
    "DISCONNECT": (),
}

# Performatives of AMQP, likewise.
AMQP: Final[dict[str, tuple[str, ...]]] = {
    "sasl-init": ("HELLO",),
    "open": ("HELLO", "OPEN_SESSION"),
    "begin": (),
    "attach": ("OPEN_PRODUCER", "OPEN_CONSUMER", "OPEN_SESSION", "temporary"),
    "flow": ("ACKNOWLEDGE", "CANCEL"),
    "transfer": ("OPEN_PRODUCER", "SEND", "OPEN_SESSION", "COMMIT", "ROLLBACK"),
    "disposition": ("ACKNOWLEDGE_ROWS", "ROLLBACK"),
    "detach": ("CLOSE", "unsubscribe", "delete_temporary"),
    "end": ("CLOSE",),
    "close": (),
}

# HTTP pages, on loopback addresses only.
PAGES: Final[Table] = {"/metrics": _PUBLIC, "/status.json": _PUBLIC, "/destinations.json": _PUBLIC}
