"""Accounts: what each connection makes the broker hold beside the messages on queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqlab.broker import limits
from mqlab.broker.core.desk import Desk
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.settings import Settings

if TYPE_CHECKING:
    from mqlab.broker.core.queue import Queue


class Account:
    """Of one connection. Its sessions share it."""

    __slots__ = ("_accounts", "bytes", "receives", "temporaries")

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        # Bytes of memory that its open transactions take.
        self.bytes = 0
        # Receives by id that wait for their message.
        self.receives = 0
        # Its temporary queues, in the order in which they were made.
        self.temporaries: dict[Queue, None] = {}

    def charge(self, size: int, *, of_channel: bool = False) -> str:
        """Count these bytes. Returns why that is not possible, or "": then they must be released."""
        accounts = self._accounts
        most = accounts.most + (limits.TRANSACTIONS_OF_CHANNELS if of_channel else 0)
        if self.bytes + size > accounts.share and not of_channel:
            return f"the open transactions of a connection have at most {accounts.share} bytes of memory"
        if accounts.bytes + size > most:
            return f"the open transactions of all connections have at most {most} bytes of memory"
        self.bytes += size
        accounts.bytes += size
        accounts.desk.memory += size
        return ""

    def release(self, size: int) -> None:
        self.bytes -= size
        self._accounts.bytes -= size
        self._accounts.desk.memory -= size

    def check_temporaries(self) -> None:
        """Raises RefusedError if it has too many of them to make another."""
        if len(self.temporaries) >= limits.TEMPORARY_QUEUES_A_CONNECTION:
            raise RefusedError(f"a connection has at most {limits.TEMPORARY_QUEUES_A_CONNECTION} temporary queues")


class Accounts:
    """By the owner of the sessions, which is the connection."""

    def __init__(self, settings: Settings, desk: Desk) -> None:
        self.desk = desk
        self.share = max(limits.TRANSACTIONS_LEAST, settings.memory_limit // limits.TRANSACTIONS_OF_A_CONNECTION)
        self.most = max(limits.TRANSACTIONS_LEAST, settings.memory_limit // limits.TRANSACTIONS_OF_ALL)
        # Bytes of memory that all open transactions take.
        self.bytes = 0
        self._of: dict[object, Account] = {}

    def of(self, owner: object) -> Account:
        account = self._of.get(owner)
        if account is None:
            account = self._of[owner] = Account(self)
        return account

    def drop_temporary(self, queue: Queue) -> None:
        account = self._of.get(queue.owner)
        if account is not None:
            account.temporaries.pop(queue, None)

    def close(self, owner: object) -> list[Queue]:
        """The connection is gone, and its sessions are closed. Returns its temporary queues."""
        account = self._of.pop(owner, None)
        return [] if account is None else [*account.temporaries]
