"""Password checks: a few at a time, in an order that lets a user log in from an address that an attacker uses, too.

The next login is the one whose user and address have the fewest recent failures; among equals, the newest. An address
with many failures gets a check only once in a while, so an attacker takes neither the processor nor others' turns.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from mqlab.broker import limits
from mqlab.broker.security.guard import Guard
from mqlab.broker.security.rights import User
from mqlab.broker.security.users_file import UsersFile

# Passwords that threads check at the same time.
_MOST_CHECKS: Final = 2


@dataclass(eq=False, slots=True)
class _WaitingLogin:
    peer: str
    name: str
    is_gone: Callable[[], bool]
    turn: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class LoginQueue:
    def __init__(self, users: UsersFile, guard: Guard) -> None:
        self._users = users
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        # Oldest first.
        self._waiting: list[_WaitingLogin] = []
        self._checking = 0
        # When the next check for addresses with many failures is due, and the timer for it.
        self._next_suspect_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def log_in(self, peer: str, name: str, password: str, is_gone: Callable[[], bool]) -> User | None:
        """Return None if the client is gone, or if user or password is wrong: then after a delay."""
        waiting = _WaitingLogin(peer, name, is_gone)
        self._waiting.append(waiting)
        self._start_checks()
        try:
            await waiting.turn
        except asyncio.CancelledError:
            self._cancelled(waiting)
            raise
        try:
            if is_gone():
                return None
            user = self._users.recognize(name, password)
            if user is None:
                user = await self._loop.run_in_executor(None, self._users.login, name, password)
            # The failure counts even if the client has disconnected.
            delay = self._guard.failed_login(peer, name, self._loop.time()) if user is None else 0.0
        finally:
            self._checking -= 1
            self._start_checks()
        if delay:
            await asyncio.sleep(delay)
        return user

    def _cancelled(self, waiting: _WaitingLogin) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
        else:
            self._checking -= 1
            self._start_checks()

    def _start_checks(self) -> None:
        """Start as many checks as may run."""
        while self._waiting and self._checking < _MOST_CHECKS:
            chosen = self._next()
            if chosen is None:
                return
            self._waiting.remove(chosen)
            self._checking += 1
            # A task that was just cancelled calls `_cancelled`.
            if not chosen.turn.done():
                chosen.turn.set_result(None)

    def _next(self) -> _WaitingLogin | None:
        """Return None if all waiting logins come from addresses that must wait longer."""
        now, guard = self._loop.time(), self._guard
        gone = next((login for login in self._waiting if login.is_gone()), None)
        if gone is not None:
            return gone
        newest = self._waiting[::-1]
        unsuspected = [login for login in newest if not guard.is_suspect(login.peer, now)]
        if not unsuspected:
            if now < self._next_suspect_at:
                if self._timer is None:
                    self._timer = self._loop.call_at(self._next_suspect_at, self._suspect_due)
                return None
            self._next_suspect_at = now + limits.LOGIN_PAUSE
        # `min` returns the first of equal logins, which is the newest.
        return min(unsuspected or newest, key=lambda login: guard.failures(login.peer, login.name, now))

    def _suspect_due(self) -> None:
        self._timer = None
        self._start_checks()
