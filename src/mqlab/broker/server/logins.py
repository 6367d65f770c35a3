"""Checks of passwords: few at a time, and in an order that lets a user in whose address an attacker shares.

The next login is the one whose user and address have failed least of late, and of those the newest. An address with
many failures gets a check only once in a while: an attacker takes neither the processor nor the turn of others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from mqlab.broker import limits
from mqlab.broker.security.guard import Guard
from mqlab.broker.security.rights import User
from mqlab.broker.security.users_file import UsersFile

# Passwords that are checked at the same time, in threads, while messages go on.
_AT_A_TIME: Final = 2


@dataclass(eq=False, slots=True)
class _Waiting:
    peer: str
    name: str
    is_gone: Callable[[], bool]
    turn: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class LoginQueue:
    def __init__(self, users: UsersFile, guard: Guard) -> None:
        self._users = users
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        # In the order in which they came.
        self._waiting: list[_Waiting] = []
        self._busy = 0
        # When an address with many failures may have a password checked again, and what will look then.
        self._suspects_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def log_in(self, peer: str, name: str, password: str, is_gone: Callable[[], bool]) -> User | None:
        """None: the client is gone, or user or password is wrong. The answer to the latter is late on purpose."""
        waiting = _Waiting(peer, name, is_gone)
        self._waiting.append(waiting)
        self._give_turns()
        try:
            await waiting.turn
        except asyncio.CancelledError:
            self._left(waiting)
            raise
        try:
            if is_gone():
                return None
            user = self._users.recognize(name, password)
            if user is None:
                user = await self._loop.run_in_executor(None, self._users.login, name, password)
            # Counted whether or not the client is still there to hear of it.
            delay = self._guard.failed_login(peer, name, self._loop.time()) if user is None else 0.0
        finally:
            self._busy -= 1
            self._give_turns()
        if delay:
            await asyncio.sleep(delay)
        return user

    def _left(self, waiting: _Waiting) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
        else:
            self._busy -= 1
            self._give_turns()

    def _give_turns(self) -> None:
        """Those who are gone have no turn to wait for."""
        while self._waiting and self._busy < _AT_A_TIME:
            chosen = self._next()
            if chosen is None:
                return
            self._waiting.remove(chosen)
            self._busy += 1
            # A task that was cancelled this moment gives its turn back.
            if not chosen.turn.done():
                chosen.turn.set_result(None)

    def _next(self) -> _Waiting | None:
        """None: all that wait come from addresses that must wait longer."""
        now, guard = self._loop.time(), self._guard
        gone = next((one for one in self._waiting if one.is_gone()), None)
        if gone is not None:
            return gone
        newest = self._waiting[::-1]
        unsuspected = [one for one in newest if not guard.is_suspect(one.peer, now)]
        if not unsuspected:
            if now < self._suspects_at:
                if self._timer is None:
                    self._timer = self._loop.call_at(self._suspects_at, self._look_again)
                return None
            self._suspects_at = now + limits.LOGIN_PAUSE
        # The first of those that are equal, which is the newest.
        return min(unsuspected or newest, key=lambda one: guard.failures(one.peer, one.name, now))

    def _look_again(self) -> None:
        self._timer = None
        self._give_turns()
