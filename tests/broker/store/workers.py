"""The work of a journal's worker threads, which a simulation does when it chooses, in any order."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(eq=False)
class Sync:
    """Handed to the workers; several may be under way."""

    work: Callable[[], None]
    done: Callable[[BaseException | None], None]
    is_worked: bool = False
    error: BaseException | None = None

    def do(self) -> None:
        """What a thread does, which waits for the disk."""
        self.is_worked = True
        try:
            self.work()
        except OSError as error:
            self.error = error
