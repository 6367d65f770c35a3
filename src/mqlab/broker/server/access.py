"""Access control: the one place that decides whether a user may run a command.

`security.commands` says which right a command needs. A user without the right gets the same refusal whether the object
exists or not. A broker without users allows every command, except on temporary queues of other connections.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Final, Protocol, TypeVar

from mqlab.broker.core.broker import Core
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.destination_names import QUEUE, TEMPORARY
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.routing.remote_queues import TRANSMISSION
from mqlab.broker.security.commands import ADMIN_REQUESTS, FRAMES, PAGES, CheckKind, Requirement
from mqlab.broker.security.patterns import EVERYTHING
from mqlab.broker.security.rights import ANYONE, Right, User
from mqlab.broker.server.trace.traced_links import TRACE_QUEUE
from mqlab.json_values import JsonObject
from mqlab.wire.native.frames import Kind

Arguments = Mapping[str, object]
_T = TypeVar("_T")

_VERBS: Final[dict[Right, str]] = {
    "read": "receive from", "write": "send to", "create": "create", "admin": "administer",
}  # fmt: skip
_TEMPORARY: Final = f"{QUEUE}:{TEMPORARY}"
_SUBSCRIPTION: Final = "subscription:"


# The broker allows these to every client that has logged in, or checks the owner elsewhere.
_WITHOUT_CHECK: Final = frozenset(
    (CheckKind.PUBLIC, CheckKind.LOGIN, CheckKind.OWN_LINK, CheckKind.LIST, CheckKind.OWN_SUBSCRIPTION)
)


class AccessDeniedError(CommandError):
    """The user lacks the right, or the object belongs to another connection."""

    code = "denied"


class Client(Protocol):
    """A connection whose client has logged in."""

    number: int

    @property
    def user(self) -> User: ...


def owner_name(user: User) -> str:
    """The name of the user that owns what the client creates; "" in a broker without users."""
    return "" if user is ANYONE else user.name


def permitted_frames(handlers: Mapping[int, _T]) -> dict[int, _T]:
    """The handlers of frames that the table of rights knows."""
    return {kind: handler for kind, handler in handlers.items() if Kind(kind).name in FRAMES}


def permitted_pages(pages: Mapping[str, _T]) -> dict[str, _T]:
    return {path: page for path, page in pages.items() if path in PAGES}


class Access:
    """Checks the commands of one connection."""

    def __init__(self, core: Core, client: Client) -> None:
        self._core = core
        self._client = client

    def check_frame(self, kind: Kind, **arguments: str) -> None:
        """Raises AccessDeniedError."""
        self._check(FRAMES.get(kind.name), arguments)

    def check_request(self, name: str, arguments: Arguments) -> None:
        """Raises CommandError."""
        self._check(ADMIN_REQUESTS.get(name), arguments)

    # Lists

    def sees(self, queue: Queue) -> bool:
        """Whether the user's list of queues and subscriptions shows this queue."""
        if self._user is ANYONE or self._owns(queue):
            return True
        right: Right = "admin" if queue.owner is not None else self._right_on(queue, "read")
        return self._user.may(right, queue.guarded_as)

    def seen_prepared(self, transactions: Iterable[JsonObject]) -> list[JsonObject]:
        return [transaction for transaction in transactions if self._may_decide(transaction["xid"])]

    def seen_channels(self, channels: Iterable[JsonObject]) -> list[JsonObject]:
        return [channel for channel in channels if self._user.may("read", _transmission(channel["to"]))]

    # Checks

    def _check(self, needs: tuple[Requirement, ...] | None, arguments: Arguments) -> None:
        if needs is None:
            raise AccessDeniedError("the table of rights does not contain this command")
        for requirement in needs:
            kind = requirement.kind
            if kind not in _WITHOUT_CHECK and (self._user is not ANYONE or kind is CheckKind.OWN_TEMPORARY):
                self._checks[kind](self, requirement, arguments)

    def _check_use(self, requirement: Requirement, arguments: Arguments) -> None:
        """The use of a destination that does not exist needs the right to create it, too."""
        right, text = requirement.right, required_text(arguments, requirement.argument)
        name = self._core.destinations.remotes.actual(text)
        if name.startswith(_TEMPORARY):
            # A client that has learned the name of a temporary queue may reply to it.
            if right != "write" and not self._owns(self._core.destinations.find(name)):
                raise AccessDeniedError(f"{name} does not exist, or is a temporary queue of another connection")
            return
        needed: tuple[Right, ...] = (right,) if self._core.destinations.exists(name) else (right, "create")
        for needed_right in needed:
            if not self._user.may(needed_right, name):
                raise self._denied(needed_right, name)

    def _check_management(self, requirement: Requirement, arguments: Arguments) -> None:
        """The name is that of a queue, or `subscription:NAME`: then the rights on its topic count."""
        name = required_text(arguments, requirement.argument)
        queue = self._core.destinations.find(name)
        if name.startswith(_SUBSCRIPTION):
            # Only a user who may manage every subscription may learn that this one does not exist.
            guarded = EVERYTHING if queue is None else queue.guarded_as
            if not self._user.may(self._right_on(queue, requirement.right), guarded):
                user, verb = self._user.name, _VERBS[requirement.right]
                raise AccessDeniedError(f"there is no {name}, or {user} has no right to {verb} it")
        elif name.startswith(f"{QUEUE}:") and not self._owns(queue):
            actual = self._core.destinations.remotes.actual(name) if queue is None else queue.full_name
            right = "admin" if actual.startswith(_TEMPORARY) else requirement.right
            if not self._user.may(right, actual):
                raise self._denied(requirement.right, actual)

    def _check_own_temporary(self, requirement: Requirement, arguments: Arguments) -> None:
        name = required_text(arguments, requirement.argument)
        if not self._owns(self._core.destinations.find(name)):
            raise AccessDeniedError(f"{name} does not exist, or is a temporary queue of another connection")

    def _check_prepared(self, requirement: Requirement, arguments: Arguments) -> None:
        xid = required_text(arguments, requirement.argument)
        if not self._may_decide(xid):
            user = self._user.name
            raise AccessDeniedError(
                f"there is no prepared transaction {xid!r}, or {user} has no right to all destinations that it used"
            )

    def _check_channel(self, requirement: Requirement, arguments: Arguments) -> None:
        queue = _transmission(required_text(arguments, requirement.argument))
        if not self._user.may(requirement.right, queue):
            raise self._denied(requirement.right, queue)

    def _check_everything(self, requirement: Requirement, arguments: Arguments) -> None:  # noqa: ARG002 - has no argument
        if not self._user.may(requirement.right, EVERYTHING):
            raise self._denied(requirement.right, "all destinations")

    def _check_trace(self, requirement: Requirement, arguments: Arguments) -> None:
        changes = arguments.get("level") or arguments.get("application")
        if self._user.may("admin", TRACE_QUEUE):
            return
        if changes or not self._user.may(requirement.right, TRACE_QUEUE):
            raise self._denied("admin", TRACE_QUEUE)

    # Details

    @property
    def _user(self) -> User:
        return self._client.user

    def _owns(self, queue: Queue | None) -> bool:
        return queue is not None and queue.owner is self._client

    def _right_on(self, queue: Queue | None, right: Right) -> Right:
        """A durable subscription of another user needs `admin` on its topic."""
        subscription = None if queue is None else queue.subscription
        owner = "" if subscription is None else subscription.terms.user
        return "admin" if owner not in ("", self._user.name) else right

    def _may_decide(self, xid: str) -> bool:
        """A user who could have sent and received all of a transaction may commit it or roll it back."""
        user, prepared = self._user, self._core.two_phase_commit.waiting.get(xid)
        if prepared is None:
            return user.may("read", EVERYTHING) and user.may("write", EVERYTHING)
        sent = {span.origin or queue.full_name for queue, span in prepared.placed}
        received = {queue.guarded_as for queue, _ in prepared.removed if not self._owns(queue)}
        return all(name.startswith(_TEMPORARY) or user.may("write", name) for name in sent) and all(
            user.may("read", name) for name in received
        )

    def _denied(self, right: Right, name: str) -> AccessDeniedError:
        return AccessDeniedError(f"{self._user.name} has no right to {_VERBS[right]} {name}")

    _checks: ClassVar[Mapping[CheckKind, Callable[["Access", Requirement, Arguments], None]]] = {
        CheckKind.USE: _check_use, CheckKind.MANAGE: _check_management, CheckKind.OWN_TEMPORARY: _check_own_temporary,
        CheckKind.PREPARED: _check_prepared, CheckKind.CHANNEL: _check_channel,
        CheckKind.EVERYTHING: _check_everything, CheckKind.TRACE: _check_trace,
    }  # fmt: skip


def required_text(arguments: Arguments, key: str) -> str:
    value = arguments.get(key)
    if not isinstance(value, str) or not value:
        raise CommandError(f"the request needs {key}")
    return value


def _transmission(broker: str) -> str:
    return f"{QUEUE}:{TRANSMISSION}{broker}"
