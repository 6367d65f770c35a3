"""Accounts: the memory that each connection takes beside the messages on queues."""

from mqlab.broker import limits
from mqlab.broker.core.context import CoreContext
from mqlab.broker.core.errors import CommandError
from mqlab.broker.settings import Settings


class Account:
    """The account of one connection. Its sessions share it."""

    __slots__ = ("_accounts", "bytes", "fewer_receives", "more_receives", "opened", "receives", "temporaries")

    def __init__(self, accounts: "Accounts") -> None:
        self._accounts = accounts
        # Bytes of memory that its open transactions take.
        self.bytes = 0
        # Bytes of memory that its sessions, links, waiting receives and temporary queues take.
        self.opened = 0
        # Receives by id that wait for their message. `more_receives` are charged; below `fewer_receives` the charge is
        # too high.
        self.receives = self.more_receives = self.fewer_receives = 0
        # The names of its temporary queues, in the order of their creation.
        self.temporaries: dict[str, None] = {}

    def charge(self, size: int, *, of_channel: bool = False) -> str:
        """Charge a transaction's bytes. Returns "", or why the account cannot be charged."""
        accounts = self._accounts
        most = accounts.most + (limits.TRANSACTIONS_OF_CHANNELS if of_channel else 0)
        if self.bytes + size > accounts.share and not of_channel:
            return f"the open transactions of a connection have at most {accounts.share} bytes of memory"
        if accounts.bytes + size > most:
            return f"the open transactions of all connections have at most {most} bytes of memory"
        self.bytes += size
        accounts.bytes += size
        accounts.context.memory += size
        return ""

    def release(self, size: int) -> None:
        self.bytes -= size
        self._accounts.bytes -= size
        self._accounts.context.memory -= size

    def check_open(self, size: int) -> None:
        """Raises CommandError if the broker has no memory to open something of this size."""
        accounts = self._accounts
        change = self._above_free(size)
        if change and accounts.opened + change > (most := accounts.may_be_opened()):
            raise CommandError(
                "the sessions, producers, consumers, receives and temporary queues of all connections have at most "
                f"{most} bytes of memory{'' if most == accounts.most_opened else ' while the broker is full'}"
            )

    def open(self, size: int) -> None:
        """Charge what is opened; a negative size is what is closed."""
        accounts, change = self._accounts, self._above_free(size)
        self.opened += size
        accounts.opened += change
        accounts.context.memory += change

    def _above_free(self, size: int) -> int:
        """By how much the charge grows: each connection has some bytes free."""
        free = limits.OPENED_FREE
        return max(0, self.opened + size - free) - max(0, self.opened - free)

    def charge_receives(self) -> None:
        """Charge more receives before another one waits. Raises CommandError."""
        most = limits.RECEIVES_A_CONNECTION
        if self.receives >= most:
            raise CommandError(f"a connection waits for at most {most} messages by their ids")
        self._set_receives(min(self.more_receives + limits.RECEIVES_CHARGED, most))

    def release_receives(self) -> None:
        """Charge fewer receives: far fewer wait than are charged."""
        self._set_receives(self.receives + limits.RECEIVES_CHARGED)

    def _set_receives(self, charged: int) -> None:
        size = (charged - self.more_receives) * limits.RECEIVE_BYTES
        if size > 0:
            self.check_open(size)
        self.open(size)
        # The gap keeps a number of receives that goes up and down from changing the charge each time.
        self.more_receives, self.fewer_receives = charged, charged - 4 * limits.RECEIVES_CHARGED

    def check_temporaries(self) -> None:
        """Raises CommandError if it has too many temporary queues to create another."""
        if len(self.temporaries) >= limits.TEMPORARY_QUEUES_A_CONNECTION:
            raise CommandError(f"a connection has at most {limits.TEMPORARY_QUEUES_A_CONNECTION} temporary queues")
        self.check_open(limits.TEMPORARY_QUEUE_BYTES)

    def add_temporary(self, name: str) -> None:
        self.open(limits.TEMPORARY_QUEUE_BYTES)
        self.temporaries[name] = None

    def drop_temporary(self, name: str) -> None:
        if name in self.temporaries:
            del self.temporaries[name]
            self.open(-limits.TEMPORARY_QUEUE_BYTES)


class Accounts:
    """All accounts, by connection."""

    def __init__(self, settings: Settings, context: CoreContext) -> None:
        self.context = context
        self.share = max(limits.TRANSACTIONS_LEAST, settings.memory_limit // limits.TRANSACTIONS_OF_A_CONNECTION)
        self._memory_limit = settings.memory_limit
        self.most = 0
        self.limit_transactions(0)
        # Bytes of memory that all open transactions take.
        self.bytes = 0
        self.most_opened = max(limits.OPENED_LEAST, settings.memory_limit // limits.OPENED_SHARE)
        self.most_opened_when_full = max(limits.OPENED_LEAST, settings.memory_limit // limits.OPENED_WHEN_FULL_SHARE)
        # Bytes of memory of what all connections have opened, above what is free.
        self.opened = 0
        self._of: dict[object, Account] = {}

    def limit_transactions(self, beside: int) -> None:
        """Open transactions of all connections have their share of the memory limit less the bytes `beside`."""
        self.most = max(limits.TRANSACTIONS_LEAST, self._memory_limit // limits.TRANSACTIONS_OF_ALL - beside)

    def may_be_opened(self) -> int:
        """Bytes of memory of all that connections may have opened by now: less when the broker is full."""
        context = self.context
        left = self._memory_limit - context.memory - context.uncounted
        return min(self.most_opened, max(self.most_opened_when_full, self.opened + left))

    def of(self, owner: object) -> Account:
        account = self._of.get(owner)
        if account is None:
            account = self._of[owner] = Account(self)
        return account

    def drop_temporary(self, owner: object, name: str) -> None:
        account = self._of.get(owner)
        if account is not None:
            account.drop_temporary(name)

    def close(self, owner: object) -> list[str]:
        """Close the account of a connection without sessions. Returns the names of its temporary queues."""
        account = self._of.pop(owner, None)
        if account is None:
            return []
        account.open(-account.opened)
        return [*account.temporaries]
