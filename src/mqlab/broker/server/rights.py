"""Whether a user may do what a frame asks for."""

from typing import Final

from mqlab.broker.core.broker import Core
from mqlab.broker.core.destinations import TEMPORARY
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.security.rights import ANYONE, Right, User

_WORDS: Final[dict[Right, str]] = {
    "read": "receive from", "write": "send to", "create": "create", "admin": "administer",
}  # fmt: skip


def check_right(core: Core, user: User, right: Right, name: str) -> None:
    """Raises RefusedError. Who may use a destination that is not there yet must also be allowed to create it."""
    if user is ANYONE:
        return
    name = core.house.remotes.actual(name)
    # A temporary queue is its connection's own, and who learns its name is meant to reply to it.
    if name.startswith(f"queue:{TEMPORARY}"):
        return
    wanted: tuple[Right, ...] = (right,) if core.house.exists(name) else (right, "create")
    for one in wanted:
        if not user.may(one, name):
            raise RefusedError(f"{user.name} has no right to {_WORDS[one]} {name}")
